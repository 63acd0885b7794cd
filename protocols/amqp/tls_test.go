package amqp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	client "github.com/rabbitmq/amqp091-go"
)

// certificate makes one for 127.0.0.1 that signs itself.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// What others leave for the reader interrupts its read, which must do no harm to a TLS connection.
func TestConnectionOverTLSOutlivesInterruptedReads(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	cert, pool := certificate(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			sock, err := listener.Accept()
			if err != nil {
				return
			}
			b.handlers.Go(func() { b.server.Handle(sock) })
		}
	}()
	conn, err := client.DialTLS("amqps://guest:guest@"+listener.Addr().String()+"/", &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	other := b.open()
	told := ch.NotifyCancel(make(chan string, 1))
	for range 20 {
		declare(t, ch, "orders")
		ds, err := ch.Consume("orders", "me", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		put(t, ch, "orders", "x")
		if d := next(t, ds); string(d.Body) != "x" {
			t.Fatalf("%q came", d.Body)
		}
		if _, err := other.QueueDelete("orders", false, false, false); err != nil { // the reader is told of the cancellation
			t.Fatal(err)
		}
		if tag := <-told; tag != "me" {
			t.Fatalf("%q was cancelled", tag)
		}
	}
}
