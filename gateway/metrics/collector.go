package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// collector is the table as Prometheus wants it. It is immutable.
type collector struct {
	read  func() *Snapshot
	descs []*prometheus.Desc // of each row
}

func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.read()
	for i, r := range rows {
		kind := prometheus.GaugeValue
		if r.Kind == Counter {
			kind = prometheus.CounterValue
		}
		r.read(s, func(v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(c.descs[i], kind, v, labels...)
		})
	}
}

// Handler serves the broker's figures, and those of the Go runtime and the process. read is called for each request.
func Handler(read func() *Snapshot) http.Handler {
	c := &collector{read: read, descs: make([]*prometheus.Desc, len(rows))}
	for i, r := range rows {
		c.descs[i] = prometheus.NewDesc(r.Name, r.Help, r.Labels, nil)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}
