package spool

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics shows Stats to Prometheus, so that both always say the same.
type metrics struct {
	log        *Log
	registerer prometheus.Registerer
	syncs      prometheus.Histogram
}

type figure struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Stats) float64
}

func gauge(name, help string, value func(*Stats) float64) figure {
	return figure{prometheus.NewDesc("spillway_collector_spool_"+name, help, nil, nil), prometheus.GaugeValue, value}
}

func counter(name, help string, value func(*Stats) float64) figure {
	return figure{prometheus.NewDesc("spillway_collector_spool_"+name+"_total", help, nil, nil), prometheus.CounterValue, value}
}

var figures = []figure{
	gauge("events", "Records on disk that are not acked.", func(s *Stats) float64 { return float64(s.Events) }),
	gauge("bytes", "Bytes of records on disk that are not acked.", func(s *Stats) float64 { return float64(s.Bytes) }),
	gauge("limit_bytes", "Bytes above which appends are refused.", func(s *Stats) float64 { return float64(s.LimitBytes) }),
	gauge("disk_bytes", "Bytes taken by the files of the spool.", func(s *Stats) float64 { return float64(s.DiskBytes) }),
	gauge("volume_free_bytes", "Free bytes of the spool's volume.", func(s *Stats) float64 { return float64(s.FreeBytes) }),
	gauge("segments", "Files with records.", func(s *Stats) float64 { return float64(s.Segments) }),
	gauge("spare_segments", "Emptied files kept to be written again.", func(s *Stats) float64 { return float64(s.Spares) }),
	gauge("oldest_timestamp_seconds", "When the oldest record was received, in Unix time; 0 if there is none.", func(s *Stats) float64 {
		if s.OldestAt.IsZero() {
			return 0
		}
		return float64(s.OldestAt.UnixMilli()) / 1000
	}),
	gauge("failing", "1 while events cannot be stored because of the disk.", func(s *Stats) float64 {
		if s.Failing {
			return 1
		}
		return 0
	}),
	gauge("foreign_files", "Files in the directory that are not the spool's.", func(s *Stats) float64 { return float64(s.ForeignFiles) }),
	gauge("set_aside_bytes", "Bytes in the corrupt directory.", func(s *Stats) float64 { return float64(s.SetAsideBytes) }),
	counter("appended_records", "Records stored durably.", func(s *Stats) float64 { return float64(s.Appended) }),
	counter("appended_bytes", "Bytes of records stored durably.", func(s *Stats) float64 { return float64(s.AppendedBytes) }),
	counter("groups", "Writes that were synced together.", func(s *Stats) float64 { return float64(s.Groups) }),
	counter("read_records", "Records handed out for delivery.", func(s *Stats) float64 { return float64(s.Read) }),
	counter("acked_records", "Records acked.", func(s *Stats) float64 { return float64(s.Acked) }),
	counter("refused_appends", "Appends refused for want of room.", func(s *Stats) float64 { return float64(s.Refused) }),
	counter("corrupt_records", "Damaged records that were left out.", func(s *Stats) float64 { return float64(s.CorruptRecords) }),
	counter("corrupt_bytes", "Damaged bytes that were left out.", func(s *Stats) float64 { return float64(s.CorruptBytes) }),
	counter("torn_records", "Records torn by a crash before they were answered for.", func(s *Stats) float64 { return float64(s.TornRecords) }),
	counter("unreadable_records", "Records the disk does not give back, kept for the next start.", func(s *Stats) float64 { return float64(s.UnreadableRecords) }),
	counter("damaged_segments", "Whole files that could not be used.", func(s *Stats) float64 { return float64(s.DamagedSegments) }),
	counter("missing_segments", "Places where segments should be and are not.", func(s *Stats) float64 { return float64(s.MissingSegments) }),
	counter("disk_errors", "Errors of the disk.", func(s *Stats) float64 { return float64(s.DiskErrors) }),
}

func newMetrics(l *Log, registerer prometheus.Registerer, lane string) *metrics {
	m := &metrics{
		log: l,
		syncs: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "spillway_collector_spool_sync_duration_seconds",
			Help:    "How long the disk took to make a group durable.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
		}),
	}
	if registerer != nil {
		if lane != "" {
			registerer = prometheus.WrapRegistererWith(prometheus.Labels{"lane": lane}, registerer)
		}
		registerer.MustRegister(m)
		m.registerer = registerer
	}
	return m
}

func (m *metrics) synced(d time.Duration) { m.syncs.Observe(d.Seconds()) }

func (m *metrics) unregister() {
	if m.registerer != nil {
		m.registerer.Unregister(m)
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(c chan<- *prometheus.Desc) {
	for i := range figures {
		c <- figures[i].desc
	}
	m.syncs.Describe(c)
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(c chan<- prometheus.Metric) {
	s := m.log.Stats()
	for i := range figures {
		c <- prometheus.MustNewConstMetric(figures[i].desc, figures[i].kind, figures[i].value(&s))
	}
	m.syncs.Collect(c)
}
