package server

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// scrapes makes the metrics for all who ask, one page at a time. Who asks and does not read the answer keeps his page in
// memory until his time is over; so while there are such pages the last one serves others, too: for one second when there is
// one, for two when there are two. Without them each answer is made when it is asked for.
type scrapes struct {
	gatherer prometheus.Gatherer

	mu   sync.Mutex
	last *scrape
	held int // pages that are being sent
}

// scrape is one page and who is being given it.
type scrape struct {
	made     time.Time
	families []*dto.MetricFamily
	err      error
	readers  int
}

var _ prometheus.TransactionalGatherer = (*scrapes)(nil)

// Gather implements prometheus.TransactionalGatherer.
func (s *scrapes) Gather() ([]*dto.MetricFamily, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == 0 || time.Since(s.last.made) >= time.Duration(s.held)*time.Second {
		made := time.Now()
		families, err := s.gatherer.Gather()
		s.last = &scrape{made: made, families: families, err: err}
	}
	page := s.last
	if page.readers++; page.readers == 1 {
		s.held++
	}
	return page.families, func() { s.given(page) }, page.err
}

func (s *scrapes) given(page *scrape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if page.readers--; page.readers == 0 {
		s.held--
	}
	if s.held == 0 {
		s.last = nil
	}
}
