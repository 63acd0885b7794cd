package main

// The reasons why tests fail.
const (
	noExchanges = "exchanges other than the default one are not there yet"
	noHTTP      = "the test closes connections through RabbitMQ's management API, which is not there yet"
)

var (
	amqp091Excluded    = []string{"TestIntegrationConsumeFlow"}
	amqp091WhyExcluded = "it crashes unless the broker refuses channel.flow, which Polylog serves"
	amqp091Known       = map[string]string{}
	kgoKnown           = map[string]string{}
	saramaKnown        = map[string]string{}
	saramaKnownOfPeer  = map[string]string{}
)
