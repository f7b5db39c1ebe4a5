package shared

import (
	"fmt"
	"testing"
	"time"
)

// What goes on is logged at once, and then at intervals that double; after a pause it is logged again.
func TestTold(t *testing.T) {
	list, now := Told{}, time.Unix(0, 0)
	var at []int
	for minute := range 130 {
		if list.Due("a", now.Add(time.Duration(minute)*time.Minute)) {
			at = append(at, minute)
		}
	}
	if got, want := fmt.Sprint(at), "[0 1 3 7 15 31 63 123]"; got != want {
		t.Errorf("told in minutes %s, want %s", got, want)
	}
	if !list.Due("b", now) {
		t.Error("another one is not told")
	}
	if now = now.Add(129*time.Minute + tellQuiet); list.Due("a", now) {
		t.Error("told before its distance is over")
	}
	if !list.Due("a", now.Add(tellQuiet+1)) {
		t.Error("after a pause it is not told")
	}
	for i := range 2 * tellKept {
		list.Due(fmt.Sprint(i), now)
	}
	if len(list.known.Get()) > tellKept {
		t.Errorf("%d are remembered", len(list.known.Get()))
	}
}
