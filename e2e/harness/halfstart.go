package harness

import "time"

// StartAndKill starts the broker after Stop or Kill and kills it when it has lived for so long, wherever it is then in its start.
func (b *Broker) StartAndKill(life time.Duration) error {
	if err := b.Begin(); err != nil {
		return err
	}
	p := b.process()
	select {
	case <-p.done: // by itself: whoever starts it next is told why
	case <-time.After(life):
	}
	return p.kill()
}
