package bench

import (
	"encoding/json"
	"fmt"
	"io"

	"polylog/logstore/logbench"
)

// Result is what one round on one broker has shown. Messages are counted, times are in seconds, memory is in bytes.
type Result struct {
	Broker    string `json:"broker"`
	Producers int    `json:"producers"`
	Consumers int    `json:"consumers"`

	// Seconds is the time from the first message until all had been delivered and acknowledged; until all had been confirmed without consumers.
	Seconds float64 `json:"seconds"`
	// SendingSeconds is the time until the last confirm.
	SendingSeconds float64 `json:"sending_seconds"`

	Published    int64 `json:"published"`
	Confirmed    int64 `json:"confirmed"`
	Refused      int64 `json:"refused"` // answered with a negative confirm, or an error
	Delivered    int64 `json:"delivered"`
	Acknowledged int64 `json:"acknowledged"` // by consumers; AMQP only
	Duplicates   int64 `json:"duplicates"`   // deliveries of a message that had arrived before
	Redelivered  int64 `json:"redelivered"`  // deliveries that carried the mark for it; AMQP only
	Unexplained  int64 `json:"unexplained"`  // deliveries of what this round did not send
	// Missing is how many confirmed messages did not arrive. Anything but 0 is a lost message, or a broker that stood still.
	Missing int64 `json:"missing"`
	// Left is how many messages were in the queues at the end, -1 if the protocol does not say.
	Left int64 `json:"left"`

	ConfirmLatency Latency `json:"confirm_latency"` // from sending to the confirm
	DeliverLatency Latency `json:"deliver_latency"` // from sending to the arrival at the consumer

	ServerCPUSeconds float64 `json:"server_cpu_s"` // of the broker's processes; 0 if they are not on this machine or cannot be seen
	ServerMemory     int64   `json:"server_memory"`
	DriverCPUSeconds float64 `json:"driver_cpu_s"`

	confirm, deliver *Histogram
}

// Rate is how many messages a second went all the way: through confirm, delivery and acknowledgement, as far as the load has them.
func (r *Result) Rate() float64 {
	if r.Seconds <= 0 {
		return 0
	}
	if r.Consumers > 0 {
		return float64(r.Delivered-r.Duplicates-r.Unexplained) / r.Seconds
	}
	return float64(r.Confirmed) / r.Seconds
}

// perMessage divides something by the messages that went all the way.
func (r *Result) perMessage(v float64) float64 {
	n := r.Rate() * r.Seconds
	if n <= 0 {
		return 0
	}
	return v / n
}

// Sound reports whether nothing was lost, refused, or left behind.
func (r *Result) Sound() bool {
	return r.Missing == 0 && r.Refused == 0 && r.Unexplained == 0 && (r.Left <= 0 || r.Consumers == 0)
}

// sum says in a sentence whether the numbers add up.
func (r *Result) sum() string {
	if r.Consumers == 0 {
		return fmt.Sprintf("published %d, confirmed %d, refused %d", r.Published, r.Confirmed, r.Refused)
	}
	s := fmt.Sprintf("confirmed %d, arrived %d, missing %d, duplicates %d", r.Confirmed, r.Delivered-r.Duplicates-r.Unexplained, r.Missing, r.Duplicates)
	for _, more := range []struct {
		n    int64
		what string
	}{{r.Refused, "refused"}, {r.Unexplained, "of other origin"}, {max(r.Left, 0), "left in the queues"}} {
		if more.n > 0 {
			s += fmt.Sprintf(", %d %s", more.n, more.what)
		}
	}
	return s
}

func seconds(v float64) string {
	return logbench.Figure{Value: v, Unit: logbench.Seconds}.String()
}

func perSecond(v float64) string {
	return logbench.Figure{Value: v, Unit: logbench.MessagesPerSecond}.String()
}

// WriteTable writes the result for people.
func (r *Result) WriteTable(w io.Writer) error {
	t := logbench.Table{Columns: []logbench.Column{
		{Name: ""}, {Name: "messages", Right: true}, {Name: "rate", Right: true},
		{Name: "p50", Right: true}, {Name: "p99", Right: true}, {Name: "p99.9", Right: true}, {Name: "max", Right: true},
	}}
	row := func(name string, n int64, in float64, l *Latency) {
		cells := []string{name, fmt.Sprint(n), "", "", "", "", ""}
		if in > 0 {
			cells[2] = perSecond(float64(n) / in)
		}
		if l != nil && n > 0 {
			cells[3], cells[4], cells[5], cells[6] = seconds(l.P50), seconds(l.P99), seconds(l.P999), seconds(l.Max)
		}
		t.Rows = append(t.Rows, cells)
	}
	row("published", r.Published, r.SendingSeconds, nil)
	row("confirmed", r.Confirmed, r.SendingSeconds, &r.ConfirmLatency)
	if r.Consumers > 0 {
		row("delivered", r.Delivered, r.Seconds, &r.DeliverLatency)
		if r.Acknowledged > 0 {
			row("acknowledged", r.Acknowledged, r.Seconds, nil)
		}
	}
	if err := t.Write(w); err != nil {
		return err
	}
	cpu := fmt.Sprintf("processor time of the driver %s", seconds(r.DriverCPUSeconds))
	if r.ServerCPUSeconds > 0 {
		cpu = fmt.Sprintf("processor time of the broker %s (%s a message), memory %s; of the driver %s", seconds(r.ServerCPUSeconds),
			seconds(r.perMessage(r.ServerCPUSeconds)), logbench.Figure{Value: float64(r.ServerMemory), Unit: logbench.Bytes}, seconds(r.DriverCPUSeconds))
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n", cpu, r.sum())
	return err
}

// WriteJSON writes the result for programs.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
