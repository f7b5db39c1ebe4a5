package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"addon-operator/cmd/cli"
	"addon-operator/messages"
)

// maxFacts and maxKept, in bytes, bound the facts that the view keeps. redrawEvery is how often it
// is drawn to update the times. interrupted is the error of a session that a second signal
// ended: 128 + SIGINT.
const (
	maxFacts    = 1000
	maxKept     = 8 << 20
	redrawEvery = 200 * time.Millisecond
	interrupted = cli.ExitError(130)
)

// pane is a part of the view in which a line can be selected. panes is the number of them.
type pane int

const (
	moduleList pane = iota
	factList
	panes
)

// model is the view, in the form of the library: a value that Update turns into the next one. Its
// methods have no effects; what a person requests goes out by wish, open and end, in commands of
// the library, which run in goroutines of their own. Maps are copied before they are changed.
type model struct {
	title  string
	color  bool
	width  int
	height int
	now    time.Time

	state state
	facts []fact
	first int // number of facts[0]: they are numbered in their order
	kept  int // bytes of facts

	focus    pane
	selected [panes]string   // the line, by its name; empty for the first of modules, the last of facts
	unfolded map[string]bool // whether a person has opened or closed a line, by its name
	help     bool
	ending   bool
	hurried  bool // Ctrl-C was pressed twice

	// These are the effects that a person can cause. They may block, so Update never calls them
	// itself.
	wish func(wish)
	open func(url string)
	end  func()
}

// The messages of the view besides facts, states and those of the library.
type (
	ticked  time.Time
	stopped struct{}
)

// newModel makes a view of a usual size, until the library reports that of the terminal.
func newModel(title string) model {
	return model{title: title, width: 80, height: 24, now: time.Now(), unfolded: map[string]bool{}}
}

func tick() tea.Cmd { return tea.Tick(redrawEvery, func(t time.Time) tea.Msg { return ticked(t) }) }

// Init implements tea.Model.
func (m model) Init() tea.Cmd { return tick() }

// Update implements tea.Model.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case ticked:
		m.now = time.Time(msg)
		return m, tick()
	case state:
		m.state = msg
	case fact:
		m = m.with(msg)
	case stopped:
		return m, tea.Quit
	case tea.KeyPressMsg:
		return m.key(msg.String())
	}
	return m, nil
}

// with returns the view with one more fact, the newest. The oldest are dropped as the limits
// require, at least one stays, and what a person has chosen about them is forgotten.
func (m model) with(f fact) model {
	m.facts, m.kept = append(m.facts, f), m.kept+f.size()
	over := 0
	for ; len(m.facts)-over > maxFacts || m.kept > maxKept && len(m.facts)-over > 1; over++ {
		m.kept -= m.facts[over].size()
		name := strconv.Itoa(m.first + over)
		if _, chosen := m.unfolded[name]; chosen {
			m.unfolded = maps.Clone(m.unfolded)
			delete(m.unfolded, name)
		}
	}
	// A copy, or the array would keep the dropped facts in memory.
	if over > 0 {
		m.facts, m.first = slices.Clone(m.facts[over:]), m.first+over
	}
	return m
}

// key handles a key. The first Ctrl-C ends the session in order, the second at once; in raw mode
// the terminal sends keys instead of signals.
func (m model) key(key string) (tea.Model, tea.Cmd) {
	// The key that leaves the help does nothing else.
	if m.help && key != "q" && key != "ctrl+c" {
		m.help = false
		return m, nil
	}
	switch key {
	case "q", "ctrl+c":
		// q never hurries: it may have been pressed twice by accident.
		if m.ending && key == "ctrl+c" {
			m.hurried = true
			return m, tea.Quit
		}
		m.ending = true
		return m, do(m.end)
	case "?":
		m.help = true
	case "tab":
		m.focus = (m.focus + 1) % panes
	case "up", "k":
		m = m.move(-1)
	case "down", "j":
		m = m.move(1)
	case "enter", "space":
		m = m.fold()
	case "o":
		return m, do(func() { m.open(m.state.Page) })
	case "r":
		return m.ask(runModule)
	case "h":
		return m.ask(runHook)
	case "t":
		return m.ask(retry)
	}
	return m, nil
}

// do calls f in a goroutine of the library: the view is not drawn while Update runs.
func do(f func()) tea.Cmd {
	return func() tea.Msg {
		f()
		return nil
	}
}

// move selects a line above or below, in the pane with the focus. At the ends it stays.
func (m model) move(by int) model {
	var names []string
	for _, l := range m.lines(m.focus) {
		if l.name != "" {
			names = append(names, l.name)
		}
	}
	if len(names) == 0 {
		return m
	}
	i := slices.Index(names, m.current(m.focus))
	m.selected[m.focus] = names[min(max(i+by, 0), len(names)-1)]
	if m.focus == factList && m.selected[factList] == names[len(names)-1] {
		m.selected[factList] = "" // the last one, also when another one comes
	}
	return m
}

// current is the name of the selected line of a pane. Without a selection, or when the selected
// line is gone, it is the first module, or the newest fact.
func (m model) current(p pane) string {
	var first, last string
	for _, l := range m.lines(p) {
		if l.name == "" {
			continue
		}
		if l.name == m.selected[p] {
			return l.name
		}
		first = cmp.Or(first, l.name)
		last = l.name
	}
	if p == factList {
		return last
	}
	return first
}

// fold opens the selected line, or closes it.
func (m model) fold() model {
	name := m.current(m.focus)
	i := slices.IndexFunc(m.lines(m.focus), func(l line) bool { return l.name == name })
	if i < 0 {
		return m
	}
	return m.chosen(name, !m.lines(m.focus)[i].open)
}

// chosen returns the model with a line open or closed. It copies the map: the library keeps earlier
// models, which are values.
func (m model) chosen(name string, open bool) model {
	m.unfolded = maps.Clone(m.unfolded)
	m.unfolded[name] = open
	return m
}

// ask requests something for the module that is selected, also while the focus is on the facts. To
// run a hook, one must be selected, unless the module has only one; otherwise the module is opened,
// to choose.
func (m model) ask(what wishKind) (tea.Model, tea.Cmd) {
	i := slices.IndexFunc(m.lines(moduleList), func(l line) bool { return l.name == m.current(moduleList) })
	if i < 0 {
		return m, nil
	}
	l := m.lines(moduleList)[i]
	w := wish{what: what, owner: l.owner}
	if what == runHook {
		w.hook = l.hook
	}
	if what == runHook && w.hook == "" {
		hooks := l.hooks
		if len(hooks) != 1 {
			return m.chosen(l.name, true), nil // to choose one
		}
		w.hook = hooks[0]
	}
	return m, do(func() { m.wish(w) })
}

// shown is the screen that sends to the view. After the program has ended, it drops what it is
// sent.
type shown struct{ *tea.Program }

func (s shown) show(f fact)    { s.Send(f) }
func (s shown) update(n state) { s.Send(n) }

// runView runs the session with the view, and returns when both have ended. end ends the context of
// the session. After hurry, or a second Ctrl-C, it waits for neither, and returns interrupted.
func (s *session) runView(ctx context.Context, end func(), hurry <-chan struct{}, in io.Reader, out io.Writer) error {
	defer keepTerminal(in)()
	m := newModel(s.place.what + " · " + s.place.cluster)
	m.color = os.Getenv("NO_COLOR") == ""
	m.wish = func(w wish) { s.post(w) }
	m.end = end
	m.open = func(url string) { s.post(openPage(url)) }
	// Signals are handled by the command, which also ends the session.
	program := tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	s.screen = shown{program}
	s.leave = func() { _ = program.ReleaseTerminal() }
	ended := make(chan error, 1)
	go func() {
		ended <- s.run(ctx)
		program.Send(stopped{})
	}()
	type outcome struct {
		last tea.Model
		err  error
	}
	left := make(chan outcome, 1)
	go func() {
		last, err := program.Run()
		left <- outcome{last, err}
	}()
	select {
	case o := <-left:
		// The program has ended: by a key, after the session, or by a failure, in which case the
		// session must end.
		end()
		if final, ok := o.last.(model); ok && final.hurried {
			return interrupted
		}
		select {
		case err := <-ended:
			return errors.Join(o.err, err)
		case <-hurry:
		}
	case <-hurry:
		go program.Kill()
		select {
		case <-left: // the other screen is left
		case <-time.After(killLimit): // nothing reads what is written to the terminal
		}
	}
	return interrupted
}

// killLimit is how long the terminal may take to be restored when nothing reads from it; after that
// only its mode is restored. Hooks have the same time to be killed.
const killLimit = 3 * time.Second

// keepTerminal remembers the mode of a terminal, and returns a function that restores it, whatever
// the library does. For anything else than a terminal it does nothing.
func keepTerminal(in io.Reader) (restore func()) {
	if file, ok := in.(*os.File); ok {
		if before, err := term.GetState(int(file.Fd())); err == nil {
			return func() { _ = term.Restore(int(file.Fd()), before) }
		}
	}
	return func() {}
}

// openPage opens the page of the operator in a browser. Without one, as over ssh, the fact has the
// address.
func openPage(url string) fact {
	for _, program := range []string{"xdg-open", "open"} {
		path, err := exec.LookPath(program)
		if err != nil {
			continue
		}
		browser := exec.Command(path, url)
		if err := browser.Start(); err == nil {
			go func() { _ = browser.Wait() }() // its output is not shown
			return newFact(aboutStart, "", "opened the live page: "+url)
		}
	}
	return newFact(aboutStart, "", "live page: "+url)
}

// elapsed is the column with times: until the next attempt, since the run in progress began, or
// since the last one began.
func (s moduleState) elapsed(now time.Time) string {
	switch {
	case s.RetryAt.After(now):
		return "again in " + rounded(s.RetryAt.Sub(now))
	case !s.Began.IsZero():
		return "for " + rounded(now.Sub(s.Began))
	case !s.Ran.IsZero():
		return rounded(now.Sub(s.Ran)) + " ago"
	}
	return ""
}

// rounded shows tenths of a second only while they matter. A clock that was set back gives 0.
func rounded(d time.Duration) string {
	if d = max(d, 0); d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// isGlobal reports whether it is that of the global hooks.
func (s moduleState) isGlobal() bool { return s.Name == messages.GlobalHooks }
