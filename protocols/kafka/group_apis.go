package kafka

import (
	"net"

	"polylog/viewlayer/group"
)

// groupAPIs are the requests about groups and their bookmarks.
func groupAPIs() []api {
	return []api{
		{8, 2, 10, (*call).offsetCommit},
		{9, 1, 10, (*call).offsetFetch},
		{10, 0, 6, (*call).findCoordinator},
		{11, 0, 9, (*call).joinGroup},
		{12, 0, 4, (*call).heartbeat},
		{13, 0, 5, (*call).leaveGroup},
		{14, 0, 5, (*call).syncGroup},
		{15, 0, 6, (*call).describeGroups},
		{16, 0, 5, (*call).listGroups},
		{42, 0, 3, (*call).deleteGroups},
		{47, 0, 0, (*call).offsetDelete},
	}
}

// afterOrder calls answer when all that the log has ordered by now is durable, or with what is in the way of that. The view orders and does not wait, so that the
// reading goroutine goes on; a client is told only what a crash does not take back.
func (c *call) afterOrder(answer func(error)) {
	c.server.durable.awaitAll(func(err error) {
		if err != nil {
			err = &group.UnavailableError{Err: err}
		}
		answer(err)
	})
}

// text returns the string, "" for null.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// textOrNull returns null for "".
func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// host is the client's address as group members are described: a slash and the address, as Kafka has it.
func (c *connection) host() string {
	host, _, err := net.SplitHostPort(c.remote)
	if err != nil {
		host = c.remote
	}
	return "/" + host
}
