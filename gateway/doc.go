// Package gateway is one broker process: it makes the log, the views and the front-ends out of a configuration, accepts connections, and brings everything to an orderly
// end.
//
// Start (New, then Run), in this order; what fails ends the start, and what was begun is taken back:
//
//  1. the log is opened and recovered. Another process that has it, a damaged log and a disk that cannot be used end here.
//  2. the views are opened: topics, queues (they take a new epoch of this node and bring back what earlier ones held), groups.
//  3. the sockets are opened, so that a taken port is an error of the start.
//  4. connections are accepted; /readyz says so, and the file of addresses, if one is wanted, is written.
//
// While it runs, a loop for each view does what falls due (maintain.go), and one watches the log. A log that failed to write or sync takes no more: the process ends with an
// error, since only a new start can tell what is on the disk.
//
// End (drain.go): /readyz says no; nothing more is accepted; front-ends bring their clients to an end, for a bounded time; the log is synced and closed. A kill at any moment loses
// nothing that was confirmed; the orderly end only spares clients surprises and the next start work.
//
// What a configuration decides is in one place, plan.go, so that a key cannot exist without reaching the code. Below the gateway nobody reads configuration.
//
// Packages: config (what may be set), auth (who may come in), admin (HTTP), metrics (figures), spelling (hints), cli (the command line), bench (load).
// The caller is cli/serve.go. Start with gateway.go.
package gateway
