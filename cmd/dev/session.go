package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"addon-operator/actors"
	"addon-operator/actors/plan"
	"addon-operator/cmd/cli"
	"addon-operator/cmd/operator"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// A port that is taken is tried again, or another one if it is not given, for a second at most.
const portTries, portPause = 20, 50 * time.Millisecond

// session is one run of the command. It starts the operator, again and again when it does not
// start, and prints what happens until it ends. Its methods are called by the operator, the checker
// and the goroutines of run.
type session struct {
	config  *cli.Config
	place   *place
	out     *printer
	checker *checker

	mu       sync.Mutex
	operator *actors.Operator  // nil while none runs
	page     string            // the address that was shown
	begins   bool              // the first converge is not over
	failed   map[string]string // the failure of each module that was shown last
	released map[string]int    // the newest revision of each release
}

// newSession makes a session without starting anything.
func newSession(c *cli.Config, p *place, lint Look, out *printer) *session {
	return &session{
		config: c, place: p, out: out, checker: newChecker(c, p.written, p.only, lint, out.show),
		begins: true, failed: map[string]string{}, released: map[string]int{},
	}
}

// started shows a fact about the session.
func (s *session) started(format string, args ...any) {
	s.out.show(fact{about: aboutStart, text: fmt.Sprintf(format, args...)})
}

// run runs the operator until ctx ends. When it does not start, which is mostly because of a file,
// it starts again after the next save; until then lint still shows what is wrong.
func (s *session) run(ctx context.Context) error {
	ctx, leave := context.WithCancel(ctx)
	var checks sync.WaitGroup
	checks.Go(func() { s.checker.run(ctx) })
	defer checks.Wait()
	defer leave()
	// One place: a save while the operator is tried again is not lost, and several are one.
	changed := make(chan struct{}, 1)
	newDisk(s.config.Dirs).watch(ctx, func(what saved) {
		s.saved(what)
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
			return fmt.Errorf("the Lease %s is lost, so another operator may act now; start the command again: %s", cli.LeaseName, err.Error())
		}
		if errors.Is(err, syscall.EADDRINUSE) && taken < portTries { // since a moment ago, or still by the last start
			taken++
			time.Sleep(portPause)
			continue
		}
		taken = 0
		s.out.show(fact{about: aboutStart, text: fmt.Sprintf("the operator does not start, and is started again when a file changes: %v", err), bad: true})
		s.checker.check(saved{"": nil}) // lint shows the mistake that stops it in its place
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
	began := func(o *actors.Operator) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.operator = o
	}
	defer began(nil)
	return operator.Run(ctx, c, operator.Host{
		Log: recorder{func(r record) { s.logged(ctx, r) }}, HookRan: s.hookRan,
		Exit: func(code int) { // after a bug in the operator, whose log has the reason
			_ = s.place.close() // it ends anyway
			fmt.Fprintln(os.Stderr, "addon-operator dev: the operator crashed because of a bug")
			os.Exit(code)
		},
		Begins: func(o *actors.Operator) {
			began(o)
			if page := pageOf(c); page != s.page { // else it was shown
				s.page = page
				s.welcome(c)
			}
		},
	})
}

// running returns the operator that runs; nil when none does.
func (s *session) running() *actors.Operator {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.operator
}

// logged shows a record of the operator's log, and after that of a new revision what differs from
// the one before. The render is slow, and the operator waits for its log. A task that is retried
// fails in one way mostly, which is shown once.
func (s *session) logged(ctx context.Context, r record) {
	module, text := r.text("module"), r.text("msg")
	s.mu.Lock()
	failure := r.text("task") + r.text("err")
	again := strings.HasPrefix(text, "task failed") && s.failed[module] == failure
	if strings.HasPrefix(text, "task failed") {
		s.failed[module] = failure
	}
	since, revision := s.released[module], r.number("revision")
	if text == "release" {
		s.released[module] = revision
		delete(s.failed, module)
	}
	first := s.begins && strings.HasPrefix(text, "converged")
	s.begins = s.begins && !first
	s.mu.Unlock()
	if f, ok := r.fact(); ok && !again {
		s.out.show(f)
	}
	if first {
		s.checker.check(saved{"": nil}) // what was wrong before
	}
	// The first revision that is seen may be that of a release which is older than this process: it
	// replaces the one before it.
	if since == 0 {
		since = revision - 1
	}
	if text == "release" && since > 0 && since != revision {
		go s.compare(ctx, module, since)
	}
}

// compare shows what the newest revision of a release changes, one fact for each object.
func (s *session) compare(ctx context.Context, module string, since int) {
	o := s.running()
	if o == nil {
		return
	}
	rendered, err := o.Render(ctx, module, plan.RenderRequest{Diff: true, Since: since})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.out.show(fact{about: aboutDiff, module: module, text: "changes are unknown: " + err.Error(), bad: true})
	case len(rendered.Changes) == 0:
		s.out.show(fact{about: aboutDiff, module: module, text: "the rendered objects have not changed"})
	}
	for _, c := range rendered.Changes {
		s.out.show(fact{about: aboutDiff, module: module, text: c.Object + " is " + c.Verb + "\n" + c.Diff})
	}
}

// hookRan shows the end of a hook; what it has printed was shown line by line. Its error does not
// pass through the log, so secrets in it are hidden here.
func (s *session) hookRan(r view.HookRun) {
	f := fact{about: aboutHook, module: messages.ModuleOf(r.Owner)}
	f.text = fmt.Sprintf("%s %s took %s", r.Hook, r.Binding, r.Took.Round(time.Millisecond))
	if r.Err != nil {
		why := r.Err.Error()
		if o := s.running(); o != nil {
			why = o.Hide(why)
		}
		f.text, f.bad = f.text+": failed\n"+why, true
	}
	s.out.show(f)
}

// saved shows what was saved, and has it checked.
func (s *session) saved(what saved) {
	for _, f := range what.facts() {
		s.out.show(f)
	}
	s.checker.check(what)
}

// record is one record of the operator's log, as its JSON reads: numbers are float64.
type record map[string]any

// text is an attribute, "" when it is missing or no text.
func (r record) text(key string) string {
	text, _ := r[key].(string)
	return text
}

// number is an attribute, 0 when it is missing or no number.
func (r record) number(key string) int {
	n, _ := r[key].(float64)
	return int(n)
}

// recorder is where the operator writes its log: each Write is one record in JSON, which is passed
// on. What is no JSON is dropped. It never returns an error.
type recorder struct{ to func(record) }

// Write implements io.Writer.
func (r recorder) Write(line []byte) (int, error) {
	var one record
	if json.Unmarshal(line, &one) == nil {
		r.to(one)
	}
	return len(line), nil
}

// fact makes a record readable. There is none for debug records and for what says nothing to an author. Attributes
// follow the message in alphabetical order.
func (r record) fact() (fact, bool) {
	level, text := r.text("level"), r.text("msg")
	switch {
	case r["stream"] != nil && r["hook"] != nil: // a line that a hook, or an enabled script, has printed
		return fact{about: aboutHook, module: r.text("module"), text: r.text("hook") + " | " + text}, true
	case text == "release":
		what := fmt.Sprintf("%s, revision %d", r.text("action"), r.number("revision"))
		if reason := r.text("reason"); reason != "" {
			what += ": " + reason
		}
		return fact{about: aboutRun, module: r.text("module"), text: what}, true
	case level == "DEBUG", text == "addon-operator starts", text == "start-up begins", text == "addon-operator has stopped":
		return fact{}, false
	}
	var more []string
	for _, key := range slices.Sorted(maps.Keys(r)) {
		switch key {
		case "time", "level", "msg", "module", "err":
			continue
		}
		if value := fmt.Sprint(r[key]); value != "" && value != "[]" {
			more = append(more, key+"="+value)
		}
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	if err := r.text("err"); err != "" {
		text += ": " + err
	}
	return fact{about: aboutLog, module: r.text("module"), text: text, bad: level == "WARN" || level == "ERROR"}, true
}

// kind is the subject of a fact.
type kind string

// The kinds are words of five letters at most: they are a column of the output.
const (
	aboutStart kind = "start"
	aboutDisk  kind = "disk"
	aboutLint  kind = "lint"
	aboutHook  kind = "hook"
	aboutRun   kind = "run"
	aboutDiff  kind = "diff"
	aboutLog   kind = "log"
)

// maxDetail bounds the lines of one fact, and maxLine the bytes of a line: a hook may print
// anything.
const (
	maxDetail = 400
	maxLine   = 2000
)

// fact is one thing that has happened, as it is shown. Bad marks what a person should look at.
type fact struct {
	about  kind
	module string // empty: none, or all
	text   string // its first line is what happened, further lines are details
	bad    bool
}

// printer prints facts, one at a time; it is safe for concurrent use. A write that fails ends the
// command: the reader of the pipe is gone.
type printer struct {
	mu  sync.Mutex
	out io.Writer
	end func()
	// path replaces temporary paths in texts by those of the author.
	path func(text string) string
}

// show prints a fact in one write: a line with its time and what it is about, and its details,
// indented.
func (p *printer) show(f fact) {
	lines := strings.Split(strings.TrimRight(f.text, "\n"), "\n")
	if left := len(lines) - 1 - maxDetail; left > 0 {
		lines = append(lines[:maxDetail+1:maxDetail+1], fmt.Sprintf("… and %d more lines", left))
	}
	if f.module != "" {
		lines[0] = f.module + ": " + lines[0]
	}
	mark := " "
	if f.bad {
		mark = "!"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s %-5s ", time.Now().Format("15:04:05.000"), mark, f.about)
	for i, line := range lines {
		if i > 0 {
			text.WriteString("    ")
		}
		fmt.Fprintf(&text, "%s\n", view.Printable(values.Shorten(p.path(line), maxLine)))
	}
	if _, err := io.WriteString(p.out, text.String()); err != nil {
		p.end()
	}
}
