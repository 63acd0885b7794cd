package e2e

import (
	"net"
	"testing"
)

// mute opens a connection, says a little, and is silent for as long as the test lasts.
func mute(t testing.TB, address, says string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = c.Write([]byte(says))
	must(t, err)
	return c
}
