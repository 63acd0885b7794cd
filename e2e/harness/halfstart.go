package harness

import "time"

// StartAndKill starts the broker after Stop or Kill and kills it when it has lived for so long, wherever it is then in its start.
func (b *Broker) StartAndKill(life time.Duration) error {
	p, err := startProcess("polylog", b.logFile, b.env, b.args)
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.running = p
	b.mu.Unlock()
	select {
	case <-p.done: // by itself: whoever starts it next is told why
	case <-time.After(life):
	}
	return p.kill()
}
