package httpkit

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the server's figures in the Prometheus format, in a registry of
// their own.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	streams  *prometheus.GaugeVec
}

// NewMetrics makes the metrics. live reports how many conversations are live.
func NewMetrics(live func() int) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_http_requests_total", Help: "Requests by route pattern and status."},
			[]string{"method", "route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_http_request_seconds", Help: "Time to answer, streams excluded.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}},
			[]string{"method", "route"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "parley_open_streams", Help: "Open live streams by kind."}, []string{"kind"}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.streams,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "parley_live_conversations", Help: "Conversations held live by this process."},
			func() float64 { return float64(live()) }))
	return m
}

// Registry takes further collectors.
func (m *Metrics) Registry() prometheus.Registerer { return m.registry }

// Handler serves the figures.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// streamAfter is when an answer counts as a stream and not as slow.
const streamAfter = time.Minute

func (m *Metrics) observe(method, route string, status int, took time.Duration) {
	if !slices.Contains(methods, method) {
		method = "OTHER" // clients must not be able to make new series
	}
	m.requests.WithLabelValues(method, route, strconv.Itoa(status)).Inc()
	if status != http.StatusSwitchingProtocols && took < streamAfter {
		m.seconds.WithLabelValues(method, route).Observe(took.Seconds())
	}
}
