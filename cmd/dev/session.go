package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"

	"addon-operator/actors"
	"addon-operator/cmd/cli"
	"addon-operator/cmd/operator"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// These are the intervals at which the pages of the operator are read: while something is in
// progress; at rest, where most changes cause a read by askSoon; and the pause after askSoon, in
// which more may happen. They are not shorter because for each answer the operator compares the
// files of all modules.
const (
	askEvery = 250 * time.Millisecond
	askIdle  = 2 * time.Second
	askAfter = 10 * time.Millisecond
)

// A port that is taken is tried again, or another one if it is not given, for a second at most.
const (
	portTries = 20
	portPause = 50 * time.Millisecond
)

// screen shows facts and states: as lines, or in the view. Only the loop calls it.
type screen interface {
	show(f fact)
	update(s state)
}

// session is one run of the command. It starts the operator, again and again when it does not
// start, and shows what happens until it ends. Four goroutines share it: run, which operates, the
// loop, ask, and the checker. They exchange events by mail; board belongs to the loop, and the last
// fields have a mutex.
type session struct {
	config *cli.Config
	place  *place
	screen screen
	leave  func() // gives the terminal back

	// readPage reads a debug page of an operator with these options.
	readPage func(ctx context.Context, c *cli.Config, path string) ([]byte, error)

	// mail has the events that wait for the loop, from any goroutine.
	mail    *mail
	nudge   chan struct{} // the pages are due
	board   *board
	checker *checker
	begun   time.Time

	// The goroutine of run sets these when an operator starts and when it has ended; others read
	// them.
	mu       sync.Mutex
	operator *actors.Operator // nil while none runs
	kill     func()           // kills its hooks; nil while none runs
	running  *cli.Config      // with which it runs, or ran last
}

// begins is posted when the operator starts, with the addresses that it has.
type begins struct{ *cli.Config }

// pagesAsked is posted before the pages are read, whether or not an operator runs: it is the time
// at which the board shows what scripts have printed.
type pagesAsked struct{}

// difference is what a new revision of a release changes, with the objects as rendered.
type difference struct {
	module  string
	changes []view.ObjectDiff
	err     error
}

// wish is what a person requests by a key; owner is a module or messages.GlobalHooks, hook is ""
// unless one is run.
type wish struct {
	what        wishKind
	owner, hook string
}

type wishKind int

const (
	runModule wishKind = iota
	runHook
	retry
)

// newSession makes a session without starting anything. The caller sets screen before run.
func newSession(c *cli.Config, p *place, o Others) (*session, error) {
	s := &session{config: c, place: p, readPage: o.Page, leave: func() {}, mail: newMail(maxMail), nudge: make(chan struct{}, 1), board: newBoard(), begun: time.Now()}
	var err error
	s.checker, err = newChecker(c, p.written, p.only, o.Lint, s.post)
	return s, err
}

// post passes an event to the loop. It never blocks, and is safe for concurrent use.
func (s *session) post(event any) { s.mail.post(event) }

// run runs the operator until ctx ends. When it does not start, which is mostly because of a file,
// it starts again after the next save; until then lint still shows what is wrong.
func (s *session) run(ctx context.Context) error {
	// The loop outlives ctx: it shows how the operator stops. The deferred calls end the checker
	// first, then the loop, and wait for both.
	looping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	ctx, leave := context.WithCancel(ctx)
	all.Go(func() { s.loop(looping) })
	all.Go(func() { s.ask(looping) })
	all.Go(func() { s.checker.run(ctx) })
	defer all.Wait()
	defer stop()
	defer leave()
	// One place: a save while the operator is tried again is not lost, and several are one.
	changed := make(chan struct{}, 1)
	newDisk(s.config.Dirs).watch(ctx, func(what saved) {
		s.post(what)
		s.checker.check(what)
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	for taken := 0; ; {
		err := s.operate(ctx)
		if ctx.Err() != nil {
			return err
		}
		var exit cli.ExitError
		if errors.As(err, &exit) { // what ran here has not stopped in good order; wrapped, the code would come without a text
			return fmt.Errorf("the Lease %s is lost, so another operator may act now; start the command again: %s", s.config.LeaseName, err.Error())
		}
		if errors.Is(err, syscall.EADDRINUSE) && taken < portTries { // since a moment ago, or still by the last start
			taken++
			time.Sleep(portPause)
			continue
		}
		taken = 0
		s.post(newFact(aboutStart, "", fmt.Sprintf("the operator does not start, and is started again when a file changes: %v", err)).bad())
		// lint shows the mistake that stops it in its place, with an excerpt.
		s.checker.check(saved{"": nil})
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// operate runs the operator once, in this goroutine, and returns why it has ended.
func (s *session) operate(ctx context.Context) error {
	c := withPorts(s.config)
	began := func(o *actors.Operator, kill func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running, s.operator, s.kill = c, o, kill
	}
	defer began(nil, nil)
	return operator.Run(ctx, c, operator.Host{
		Log: recorder{s.post}, Exit: s.crashed, HookRan: func(r view.HookRun) { s.post(r) },
		Begins: func(o *actors.Operator, kill func()) {
			began(o, kill)
			s.post(begins{c})
		},
	})
}

// crashed ends the process after a bug in the operator. It waits at most a second until the log
// with the reason is shown, gives the terminal back, and removes what is temporary as far as it
// can.
func (s *session) crashed(code int) {
	for deadline := time.Now().Add(time.Second); !s.mail.empty() && time.Now().Before(deadline); {
		time.Sleep(askAfter)
	}
	s.leave()
	_ = s.place.close() // it ends anyway
	fmt.Fprintln(os.Stderr, "addon-operator dev: the operator crashed because of a bug; --plain shows its log")
	os.Exit(code)
}

// killHooks ends the processes of hooks when the session does not wait for the operator: they would
// continue to write to the cluster, and to files that are about to be removed.
func (s *session) killHooks() {
	s.mu.Lock()
	kill := s.kill
	s.mu.Unlock()
	if kill == nil {
		return
	}
	killed := make(chan struct{})
	go func() {
		kill()
		close(killed)
	}()
	select {
	case <-killed:
	case <-time.After(killLimit): // it waits for hooks that are being started, which may hang with their file system
	}
}

// now returns the operator that runs; nil when none does.
func (s *session) now() *actors.Operator {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.operator
}

// loop handles one event after the other, until ctx ends.
func (s *session) loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			s.takeAll(ctx) // the last ones show how it ended
			return
		case <-s.mail.arrived:
			s.takeAll(ctx)
		}
	}
}

// takeAll handles all events that wait, and then shows the new state once.
func (s *session) takeAll(ctx context.Context) {
	events, dropped := s.mail.take()
	for _, event := range events {
		s.take(ctx, event)
	}
	// One state for many events: the view draws no state that is over already.
	now := s.board.state()
	for _, m := range now.Modules {
		for i := range m.Problems {
			m.Problems[i] = s.place.real(m.Problems[i])
		}
	}
	s.screen.update(now)
	if dropped > 0 {
		s.screen.show(newFact(aboutStart, "", view.Count(dropped, "event")+" are not shown: the terminal was too slow").bad())
	}
}

// take handles one event, and shows the resulting facts, with paths in the directory of the author.
func (s *session) take(ctx context.Context, event any) {
	for _, f := range s.facts(ctx, event) {
		f.Text = s.place.real(f.Text)
		for i := range f.Detail {
			f.Detail[i] = s.place.real(f.Detail[i])
		}
		s.screen.show(f)
	}
}

// facts updates the board by an event, returns the facts that follow, and starts what is due: a
// look at the pages soon, or a comparison of revisions, which waits for the operator and so has a
// goroutine of its own.
func (s *session) facts(ctx context.Context, event any) []fact {
	switch e := event.(type) {
	case fact:
		return []fact{e}
	case begins:
		if page := pageOf(e.Config); page != s.board.page { // else it was shown
			s.board.page = page
			return s.place.welcome(e.Config)
		}
	case record:
		defer s.askSoon()
		facts, since := s.board.logged(e)
		if since > 0 {
			go s.compare(ctx, e.text("module"), since)
		}
		return facts
	case view.HookRun:
		defer s.askSoon()
		hide := func(text string) string { return text }
		if o := s.now(); o != nil {
			hide = o.Hide
		}
		return []fact{s.board.hookRan(e, hide)}
	case answers:
		return s.answered(e)
	case saved:
		return e.facts()
	case pagesAsked:
		return s.board.scriptFacts()
	case linted:
		return s.board.linted(e)
	case tested:
		return e.facts()
	case difference:
		return s.board.rendered(e)
	case wish:
		defer s.askSoon()
		return s.fulfil(e)
	}
	return nil
}

// answered handles an answer of the pages. The first converge also begins the first check of all
// modules, which finds what was wrong before the session.
func (s *session) answered(a answers) []fact {
	was := s.board.ready
	facts := s.board.answered(a)
	s.board.forget()
	if !was && s.board.ready {
		facts = append(facts, newFact(aboutStart, "", fmt.Sprintf("%s, %s after the start", view.Count(len(a.List.Modules), "module"), time.Since(s.begun).Round(time.Millisecond))))
		s.checker.check(saved{"": nil}) // what was wrong before
	}
	return facts
}

// fulfil does what a key requests, and reports that it was requested, or why not. Its effects are
// reported by the operator.
func (s *session) fulfil(w wish) []fact {
	o := s.now()
	if o == nil {
		return []fact{newFact(aboutStart, "", "the operator has not started yet").bad()}
	}
	var err error
	text := "runs again, on request"
	switch w.what {
	case runModule:
		if w.owner == messages.GlobalHooks {
			err = errors.New("global hooks run separately: expand them, and select one")
		} else {
			err = o.ByHand().RunModule(w.owner)
		}
	case runHook:
		run, known := s.board.lastRun(w.owner, w.hook)
		if !known {
			err = fmt.Errorf("hook %s has not run yet, so there is no context to repeat", w.hook)
			break
		}
		err = o.ByHand().RunHookAgain(run)
		text = fmt.Sprintf("hook %s runs again, on request, with the context of its last run (%s)", w.hook, contextsText(run))
	case retry:
		o.ByHand().RetryNow(w.owner)
		text = "failed tasks are retried now, on request"
	}
	if err != nil {
		return []fact{newFact(aboutRun, messages.ModuleOf(w.owner), err.Error()).bad()}
	}
	return []fact{newFact(aboutRun, messages.ModuleOf(w.owner), text)}
}

// askSoon has the pages read soon. It never blocks; several calls lead to one read.
func (s *session) askSoon() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// ask reads the pages of the operator at intervals, and soon after askSoon, and posts their
// contents. A read that fails is skipped: the operator is starting or has ended.
func (s *session) ask(ctx context.Context) {
	pause := time.NewTimer(askEvery)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		case <-s.nudge:
			time.Sleep(askAfter) // what else has happened is seen at the same time
		}
		s.post(pagesAsked{})
		pause.Reset(askEvery)
		if s.now() == nil {
			continue
		}
		var a answers
		// All or nothing: the board compares an answer with the one before it.
		if s.page(ctx, "/module/list", &a.List) == nil && s.page(ctx, "/queue/list", &a.Queues) == nil && s.page(ctx, "/status/converge?output=json", &a.Converge) == nil {
			s.post(a)
			if a.atRest() {
				pause.Reset(askIdle)
			}
		}
	}
}

// page reads one page, of the operator that runs or ran last. There must have been one.
func (s *session) page(ctx context.Context, path string, into any) error {
	s.mu.Lock()
	c := s.running
	s.mu.Unlock()
	body, err := s.readPage(ctx, c, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// compare posts what the newest revision changes since an earlier one. It is called in a goroutine
// of its own, since a render may take seconds.
func (s *session) compare(ctx context.Context, module string, since int) {
	var rendered view.Rendered
	err := s.page(ctx, fmt.Sprintf("/module/%s/render.json?diff=true&since=%d", url.PathEscape(module), since), &rendered)
	s.post(difference{module, rendered.Changes, err})
}
