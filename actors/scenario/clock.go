package scenario

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"addon-operator/messages"
	"addon-operator/supervisor"
)

// clock is the time of a scenario. It stands still until a step advances it; then
// everything that becomes due happens at its time, one instant after the other. The operator itself
// runs on real time, but nothing in it depends on that: its crontabs never fire by themselves, and
// its delays are longer than any test. The clock makes both happen by messages. All fields but now
// belong to the goroutine that does the steps.
type clock struct {
	given bool // by the test
	began time.Time
	now   supervisor.Shared[time.Time] // which hooks see
	ticks map[string]time.Time         // when crontabs fire next; zero: not looked at yet, or never
	tries map[string]time.Time         // when failed runs are retried, by path and attempt
}

// startOfTime is a Thursday. It is the same in each play, so that what hooks print about it is,
// too.
func startOfTime() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

func newClock(began time.Time) *clock {
	given := !began.IsZero()
	if !given {
		began = startOfTime()
	}
	c := &clock{given: given, began: began.UTC(), ticks: map[string]time.Time{}, tries: map[string]time.Time{}}
	c.set(c.began)
	return c
}

func (c *clock) set(t time.Time) { c.now.Change(func(time.Time) time.Time { return t }) }

// environment has the time for a hook that runs now, if the test gives one: else hooks see the real time, as their
// authors expect of a hook that reads it. SOURCE_DATE_EPOCH is what many tools use in place of the time, if it is set.
func (c *clock) environment() []string {
	if !c.given {
		return nil
	}
	now := c.now.Get()
	return []string{"TEST_NOW=" + now.Format(time.RFC3339), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", now.Unix())}
}

// mostInstants is more than any scenario needs: a tick each second for nearly three hours. Each one
// takes at least some milliseconds of real time.
const mostInstants = 10_000

// advance lets time pass: crontabs fire, and failed tasks are retried. The operator becomes idle
// between two instants, so what an instant causes is done at its time: a run that fails then is
// retried five seconds later, if that is within the time.
func (p *play) advance(ctx context.Context, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || p.Operator == nil {
		return cmp.Or(err, errNotRunning)
	}
	end := p.clock.now.Get().Add(d)
	for range mostInstants {
		due := p.clock.next(p.recorder.schedules(), waiting(p.Engine))
		if due.IsZero() || due.After(end) {
			p.clock.set(end)
			return nil
		}
		p.clock.set(due)
		p.happen(due)
		if err := p.settle(ctx); err != nil {
			return fmt.Errorf("at %s: %w", due.Sub(p.clock.began), err)
		}
	}
	return fmt.Errorf("advance: more than %d things become due in %s; advance less time, or use tick", mostInstants, d)
}

// next is the first instant at which something is due; zero when nothing ever is. What is
// seen for the first time counts from now. For a failed run that is exact: the clock has not moved
// since it failed.
func (c *clock) next(schedules map[string]crontab, waiting map[string]supervisor.RunStatus) (first time.Time) {
	earlier := func(t time.Time) {
		if t.IsZero() {
			return // a crontab that no day fits, such as the 30th of February
		}
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	for crontab, at := range schedules {
		if c.ticks[crontab].IsZero() {
			c.ticks[crontab] = at.schedule.Next(c.now.Get())
		}
		earlier(c.ticks[crontab])
	}
	// Only runs that still wait are kept. The attempt is in the key, because a run that has failed
	// again waits again, and longer.
	kept := map[string]time.Time{}
	for path, status := range waiting {
		key := fmt.Sprintf("%s %d", path, status.Attempt)
		if kept[key] = c.tries[key]; kept[key].IsZero() {
			kept[key] = c.now.Get().Add(delay(status.Attempt))
		}
		earlier(kept[key])
	}
	c.tries = kept
	return first
}

// delay is how long a task waits after so many attempts that failed (F7).
func delay(attempts int) (d time.Duration) {
	delays := supervisor.Backoff()
	for range attempts {
		d = delays.NextBackOff()
	}
	return d
}

// happen does what is due now. All failed tasks of an owner are retried together, because RetryNow
// is sent to the owner and names no task; one of them may therefore come before its time.
func (p *play) happen(now time.Time) {
	for key, due := range p.clock.tries {
		if !due.After(now) {
			p.retry(key)
		}
	}
	for crontab, at := range p.recorder.schedules() {
		if due := p.clock.ticks[crontab]; !due.IsZero() && !due.After(now) {
			p.Operator.Send("schedule", messages.ScheduleFired{Crontab: crontab})
			p.clock.ticks[crontab] = at.schedule.Next(now)
		}
	}
}

// retry retries the failed tasks of the owner of a run.
func (p *play) retry(run string) {
	if owner, _, ok := supervisor.SplitRun(strings.TrimPrefix(run, "operator/")); ok {
		p.Operator.Send(owner, messages.RetryNow{})
	}
}

// waiting are the runs that failed and wait for their next attempt, by the path of their actor.
func waiting(e *Engine) map[string]supervisor.RunStatus {
	found := map[string]supervisor.RunStatus{}
	e.Visit(func(n *supervisor.Node) {
		if status, ok := n.Status.(supervisor.RunStatus); ok && !status.RetryAt.IsZero() {
			found[n.Path] = status
		}
	})
	return found
}
