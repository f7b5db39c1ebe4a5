package server

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// scrapes makes the page of metrics for all clients, one at a time. A client that does not read the
// answer keeps its page in memory until the write deadline. To bound that memory, new requests
// share the last page while pages are being sent: for one second when there is one such page, for
// two seconds when there are two, and so on. Without such pages each request gets fresh metrics
// (J8).
type scrapes struct {
	gatherer prometheus.Gatherer

	// mu is also held while metrics are gathered, so that this happens once at a time.
	mu   sync.Mutex
	last *scrape // nil when held is 0
	held int     // pages that are being sent to one client or more
}

// scrape is one page, and how many clients are being sent it. Its families are read only.
type scrape struct {
	made     time.Time
	families []*dto.MetricFamily
	err      error
	readers  int
}

var _ prometheus.TransactionalGatherer = (*scrapes)(nil)

// Gather implements prometheus.TransactionalGatherer. The handler calls the function that it
// returns when the answer was written, or the client has gone.
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

// given is called once for each Gather. With the last reader the memory of the page is free.
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
