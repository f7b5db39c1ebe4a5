package supervisor_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/supervisor"
)

// diary is a sparing log on virtual time.
type diary struct {
	*slog.Logger
	level  slog.LevelVar
	out    bytes.Buffer
	began  time.Time
	passed int
}

func inDiary(t *testing.T, f func(d *diary)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		d := &diary{began: time.Now()}
		d.Logger = slog.New(supervisor.Sparing(slog.NewTextHandler(&d.out, &slog.HandlerOptions{Level: &d.level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.String("at", time.Since(d.began).String())
			}
			return a
		}})))
		f(d)
	})
}

// written are the lines since the last call.
func (d *diary) written() string {
	lines := d.out.String()[d.passed:]
	d.passed = d.out.Len()
	return lines
}

// fails logs an attempt, as owners do, each time after the pause of rule F7.
func (d *diary) fails(attempts int) {
	pause := 5 * time.Second
	for n := 1; n <= attempts; n++ {
		err := fmt.Errorf("dial tcp 10.0.0.1:%d: connection refused", 40000+n)
		d.With("module", "dns").With("task", "RunModule", "attempt", n, "err", err).Error("task failed, will retry", "in", pause)
		time.Sleep(pause)
		pause = min(2*pause, 30*time.Second)
	}
}

// Issue 8, point 5: the first time fully, then at growing distances, with the number of
// those that were left out.
func TestRepeatedFailuresAreSpared(t *testing.T) {
	inDiary(t, func(d *diary) {
		d.fails(400) // a bit more than three hours
		lines := strings.Split(strings.TrimSpace(d.written()), "\n")
		var at []string
		left := 0
		for _, line := range lines {
			at = append(at, strings.TrimPrefix(strings.Fields(line)[0], "at="))
			var n int
			if _, text, ok := strings.Cut(line, "leftOut="); ok {
				_, _ = fmt.Sscan(text, &n)
			}
			left += n
		}
		if got, want := strings.Join(at, " "), "0s 15s 35s 1m35s 3m5s 6m5s 11m35s 22m35s 44m5s 1h27m5s 2h27m5s"; got != want {
			t.Errorf("written at %s, want %s", got, want)
		}
		for _, want := range []string{"module=dns", "attempt=1 ", "40001: connection refused", "in=5s"} {
			if !strings.Contains(lines[0], want) {
				t.Errorf("the first record lacks %s: %s", want, lines[0])
			}
		}
		// Every attempt until the last record is written or counted.
		var last int
		_, text, _ := strings.Cut(lines[len(lines)-1], "attempt=")
		if _, _ = fmt.Sscan(text, &last); left+len(lines) != last {
			t.Errorf("%d written and %d left out of %d", len(lines), left, last)
		}
	})
}

// Another failure, another task, and the same one after it was well are news.
func TestOtherFailuresAreNotSpared(t *testing.T) {
	inDiary(t, func(d *diary) {
		failed := func(module string, attempt int, err string) string {
			d.Error("task failed", "module", module, "attempt", attempt, "err", errors.New(err))
			return d.written()
		}
		if failed("a", 1, "x") == "" || failed("a", 2, "x") != "" {
			t.Error("the same failure is not spared")
		}
		if failed("b", 1, "x") == "" || failed("a", 3, "y") == "" {
			t.Error("another module, or another error, is spared")
		}
		time.Sleep(6 * time.Minute)
		if got := failed("a", 1, "x"); !strings.Contains(got, "leftOut=1") {
			t.Errorf("after a silence it is spared: %q", got)
		}
	})
}

// What is no failure is always written, however often.
func TestOnlyFailuresAreSpared(t *testing.T) {
	inDiary(t, func(d *diary) {
		for range 3 {
			d.Info("converged", "err", "none")
			d.Warn("hook is skipped")
		}
		if n := strings.Count(d.written(), "\n"); n != 6 {
			t.Errorf("%d of 6 lines", n)
		}
	})
}

// Nothing is hidden at level debug, which may be switched on and off at any time.
func TestDebugHidesNothing(t *testing.T) {
	inDiary(t, func(d *diary) {
		lines := func() int {
			for range 5 {
				d.Error("failed", "err", "x")
			}
			return strings.Count(d.written(), "\n")
		}
		if n := lines(); n != 1 {
			t.Errorf("%d lines at level info", n)
		}
		d.level.Set(slog.LevelDebug)
		if n := lines(); n != 5 {
			t.Errorf("%d of 5 lines at level debug", n)
		}
		d.level.Set(slog.LevelInfo)
		if n := lines(); n != 0 {
			t.Errorf("%d lines at level info again", n)
		}
	})
}

// The memory of failures has an end, and none is lost when it is full.
func TestManyFailures(t *testing.T) {
	inDiary(t, func(d *diary) {
		for i := range 1500 {
			d.Error("failed", "about", i, "err", "x")
		}
		if n := strings.Count(d.written(), "\n"); n != 1500 {
			t.Errorf("%d of 1500 different failures are written", n)
		}
		time.Sleep(6 * time.Minute)
		for range 2 {
			d.Error("failed", "about", "later", "err", "x")
		}
		if n := strings.Count(d.written(), "\n"); n != 1 {
			t.Errorf("%d lines: the old ones are not forgotten", n)
		}
	})
}
