// Polylog is one broker for AMQP 0-9-1, Kafka and MQTT over one segmented log. This is its command: it hands over to package
// gateway/cli and does nothing else.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"polylog/gateway/cli"
)

// version is set by the linker (see Makefile).
var version string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, cli.Env{Stdout: os.Stdout, Stderr: os.Stderr, Version: version}, os.Args[1:])
	stop()
	os.Exit(code)
}
