package bench

import "context"

// Broker is a broker as one protocol reaches it. A round calls it in the order of its methods.
type Broker interface {
	// Name says which broker it is, for people: its address, say.
	Name() string
	// Addresses are where its nodes listen, as host:port.
	Addresses() []string
	// setup makes the queues or the topic of the round, empty.
	setup(ctx context.Context, r *round) error
	// producer and consumer connect. Their index counts from 0.
	producer(ctx context.Context, r *round, index int) (client, error)
	consumer(ctx context.Context, r *round, index int) (client, error)
	// remove takes away what setup made and returns how many messages were still in it, or -1 where the protocol does not say.
	remove(ctx context.Context, r *round) (left int64, err error)
}

// client is one producer or consumer of a round, on one connection.
type client interface {
	// ready returns when nothing more is needed before messages can flow. All clients of the round have connected before.
	ready(ctx context.Context) error
	// run works until there is no more to do: a producer until all it sent has been settled or nothing more comes, a consumer until finish is called. Its error ends the round.
	run(ctx context.Context) error
	// finish makes a consumer stop in good order: it returns when the broker has taken notice of all that was acknowledged. It is called once, while run runs. For a producer it does nothing.
	finish(ctx context.Context) error
	// close gives up the connection, at any time; run then ends.
	close()
}
