package kafka

import "sync/atomic"

// Figures are what a Server did since it was made, and what it has now.
type Figures struct {
	Connections      int64 // open now
	ConnectionsTotal int64
	Requests         int64
	RequestErrors    int64 // connections ended because of what their client sent
	BytesIn          int64 // of requests
	BytesOut         int64 // of answers
	ProducedBatches  int64
	ProducedRecords  int64
	ProducedBytes    int64 // of batches
	FetchedBytes     int64 // of batches
	FetchesWaited    int64 // fetches that had to wait for records
	FetchSessions    int64 // held now
	FetchEvictions   int64 // sessions that had to make room
}

// figures are the counters behind Figures.
type figures struct {
	connections, connectionsTotal, requests, requestErrors, bytesIn, bytesOut    atomic.Int64
	producedBatches, producedRecords, producedBytes, fetchedBytes, fetchesWaited atomic.Int64
}

// Figures returns the server's figures.
func (s *Server) Figures() Figures {
	f := &s.figures
	sessions, evicted := s.sessions.counts()
	return Figures{
		FetchSessions:    sessions,
		FetchEvictions:   evicted,
		Connections:      f.connections.Load(),
		ConnectionsTotal: f.connectionsTotal.Load(),
		Requests:         f.requests.Load(),
		RequestErrors:    f.requestErrors.Load(),
		BytesIn:          f.bytesIn.Load(),
		BytesOut:         f.bytesOut.Load(),
		ProducedBatches:  f.producedBatches.Load(),
		ProducedRecords:  f.producedRecords.Load(),
		ProducedBytes:    f.producedBytes.Load(),
		FetchedBytes:     f.fetchedBytes.Load(),
		FetchesWaited:    f.fetchesWaited.Load(),
	}
}
