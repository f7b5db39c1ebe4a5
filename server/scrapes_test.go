package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// J8: who does not read the metrics does not make the operator hold a page for each of them; alone, everybody gets fresh ones.
func TestSlowScrapesShareTheirPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		s := &scrapes{gatherer: prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { made++; return nil, nil })}
		for range 3 {
			_, given, _ := s.Gather()
			given()
		}
		if made != 3 {
			t.Fatalf("%d pages were made for 3 who read them at once", made)
		}
		made = 0
		var all []func()
		for range 1500 { // 15 seconds, as long as an answer may take
			_, given, _ := s.Gather()
			all = append(all, given)
			<-time.After(10 * time.Millisecond)
		}
		if made > 5 {
			t.Errorf("%d pages are held for those who do not read", made)
		}
		for _, given := range all {
			given()
		}
		made = 0
		if _, given, _ := s.Gather(); made != 1 {
			t.Error("the next one gets an old page")
			given()
		}
	})
}
