// Package stream is the socket side of every front-end: it reads into bounded memory and writes what many goroutines have to say.
//
// It knows no protocol. What it promises:
//
//   - Reader holds at most what the caller allows, and its memory follows the bytes that have arrived, not the length that a peer claims. After a read
//     that timed out it goes on where it was.
//   - Writer takes bytes from any number of goroutines under one small lock and hands what has gathered to the connection in one write. It says how much
//     waits, tells once when there is room again, and gives up on a peer that takes nothing.
//   - Roster knows the connections of a server, and sees to it that all of them end.
//   - An idle connection keeps a small read buffer and no write buffer.
//
// The bound of what waits for a peer is kept by those who write: they ask Writer.Room before they add what they could hold back (deliveries), and
// Writer.Await before they read on from a peer whose answers pile up.
//
// Start with reader.go, then writer.go.
package stream
