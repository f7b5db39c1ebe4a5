package actors

import (
	"testing"
	"time"

	"addon-operator/hooks"
)

// C10: a hook has one bucket, of the size and speed that it says; one that sets no interval has none.
func TestLimits(t *testing.T) {
	hook := func(interval time.Duration, burst int) hooks.Hook {
		return hooks.Hook{File: hooks.File{Name: "a.sh"}, Config: &hooks.Config{Settings: hooks.Settings{ExecutionMinInterval: interval, ExecutionBurst: burst}}}
	}
	var l limits
	if got := l.of(hook(0, 5)); got != nil {
		t.Errorf("a bucket without an interval: %v", got)
	}
	first := l.of(hook(time.Hour, 0))
	if !first.Allow() || first.Allow() {
		t.Error("a bucket without a burst does not hold one run")
	}
	if again := l.of(hook(time.Hour, 0)); again != first || again.Allow() {
		t.Error("the bucket is full again")
	}
	changed := l.of(hook(time.Minute, 3))
	if changed.Burst() != 3 || changed.Limit() != 1.0/60 || !changed.Allow() {
		t.Errorf("after a change the bucket holds %d, fills by %v a second", changed.Burst(), changed.Limit())
	}
	other := hook(time.Hour, 1)
	other.Name = "b.sh"
	if !l.of(other).Allow() {
		t.Error("two hooks share a bucket")
	}
}
