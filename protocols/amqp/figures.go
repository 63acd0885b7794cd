package amqp

import "sync/atomic"

// Figures are what the front-end has done since it was made, and what it has now.
type Figures struct {
	Connections int64 // open now
	Channels    int64 // open now
	Consumers   int64 // now

	Accepted          int64 // connections ever
	HandshakesFailed  int64 // connections that ended before connection.open-ok
	LoginsRefused     int64 // of these, for the user, the password or the virtual host
	HeartbeatsMissed  int64 // connections closed because the client was silent
	SlowClients       int64 // connections closed because the client took nothing
	ConnectionErrors  int64 // connection.close sent for an error
	ChannelErrors     int64 // channel.close sent for an error
	BytesRead         int64
	BytesWritten      int64
	Published         int64 // messages taken from publishers
	Confirmed         int64 // basic.ack to publishers, counted in messages
	Refused           int64 // basic.nack to publishers, counted in messages
	Unroutable        int64 // messages that no queue was for
	Returned          int64 // of these, sent back with basic.return
	Delivered         int64 // messages sent to consumers
	Got               int64 // messages sent in answer to basic.get
	GotNothing        int64 // basic.get on an empty queue
	Acknowledged      int64 // messages acknowledged by consumers
	Requeued          int64 // messages that consumers gave back
	Rejected          int64 // messages rejected for good
	PublishCommits    int64 // transactions that published
	SettleCommits     int64 // transactions that acknowledged, requeued or rejected
	PublishersBlocked int64 // times that a connection's publishing had to wait for room on the disk
}

// counters are the figures that only grow, and those that are counted up and down.
type counters struct {
	connections, channels, consumers                                         atomic.Int64
	accepted, handshakesFailed, loginsRefused, heartbeatsMissed, slowClients atomic.Int64
	connectionErrors, channelErrors, bytesRead, bytesWritten                 atomic.Int64
	published, confirmed, refused, unroutable, returned                      atomic.Int64
	delivered, got, gotNothing, acknowledged, requeued, rejected             atomic.Int64
	publishCommits, settleCommits, publishersBlocked                         atomic.Int64
}

// Figures returns the figures.
func (s *Server) Figures() Figures {
	c := &s.counts
	return Figures{
		Connections: c.connections.Load(), Channels: c.channels.Load(), Consumers: c.consumers.Load(),
		Accepted: c.accepted.Load(), HandshakesFailed: c.handshakesFailed.Load(), LoginsRefused: c.loginsRefused.Load(),
		HeartbeatsMissed: c.heartbeatsMissed.Load(), SlowClients: c.slowClients.Load(), ConnectionErrors: c.connectionErrors.Load(),
		ChannelErrors: c.channelErrors.Load(), BytesRead: c.bytesRead.Load(), BytesWritten: c.bytesWritten.Load(),
		Published: c.published.Load(), Confirmed: c.confirmed.Load(), Refused: c.refused.Load(), Unroutable: c.unroutable.Load(), Returned: c.returned.Load(),
		Delivered: c.delivered.Load(), Got: c.got.Load(), GotNothing: c.gotNothing.Load(),
		Acknowledged: c.acknowledged.Load(), Requeued: c.requeued.Load(), Rejected: c.rejected.Load(),
		PublishCommits: c.publishCommits.Load(), SettleCommits: c.settleCommits.Load(), PublishersBlocked: c.publishersBlocked.Load(),
	}
}
