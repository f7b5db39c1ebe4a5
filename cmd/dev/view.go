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

// maxFacts and maxKept, in bytes, bound what the view keeps, and redrawEvery is how often times go on.
const (
	maxFacts    = 1000
	maxKept     = 8 << 20
	redrawEvery = 200 * time.Millisecond
	interrupted = cli.ExitError(130)
)

// pane is a part of the view in which a line can be selected.
type pane int

const (
	moduleList pane = iota
	factList
	panes
)

// model is the view: pure, but for what it asks for by wish, open and end.
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
	selected [panes]string // the line, by its name; empty for the first of modules, the last of facts
	unfolded map[string]bool
	folded   map[string]bool
	help     bool
	ending   bool
	hurried  bool // Ctrl-C was pressed twice

	wish func(wish)
	open func(url string)
	end  func()
}

// The messages of the view besides facts, states and those of the library.
type (
	ticked  time.Time
	stopped struct{}
)

func newModel(title string) model {
	return model{title: title, width: 80, height: 24, now: time.Now(), unfolded: map[string]bool{}, folded: map[string]bool{}}
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

// with is the view with one more fact, the last one that is shown. The oldest make room.
func (m model) with(f fact) model {
	m.facts, m.kept = append(m.facts, f), m.kept+f.size()
	over := 0
	for ; len(m.facts)-over > maxFacts || m.kept > maxKept && len(m.facts)-over > 1; over++ {
		m.kept -= m.facts[over].size()
		name := strconv.Itoa(m.first + over)
		if m.unfolded[name] || m.folded[name] {
			m.unfolded, m.folded = without(m.unfolded, name), without(m.folded, name)
		}
	}
	if over > 0 {
		m.facts, m.first = slices.Clone(m.facts[over:]), m.first+over
	}
	return m
}

func (m model) key(key string) (tea.Model, tea.Cmd) {
	if m.help && key != "q" && key != "ctrl+c" {
		m.help = false
		return m, nil
	}
	switch key {
	case "q", "ctrl+c":
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

// do calls f outside of the view, which must not wait.
func do(f func()) tea.Cmd {
	return func() tea.Msg {
		f()
		return nil
	}
}

// move selects another line of the pane.
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

// current is the name of the selected line.
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

// fold unfolds the selected line, or folds it.
func (m model) fold() model {
	name := m.current(m.focus)
	i := slices.IndexFunc(m.lines(m.focus), func(l line) bool { return l.name == name })
	if i < 0 {
		return m
	}
	open := m.lines(m.focus)[i].open
	m.unfolded, m.folded = with(m.unfolded, name, !open), with(m.folded, name, open)
	return m
}

func without(set map[string]bool, name string) map[string]bool {
	next := maps.Clone(set)
	delete(next, name)
	return next
}

// with is a copy: models are values.
func with(set map[string]bool, name string, is bool) map[string]bool {
	next := make(map[string]bool, len(set)+1)
	for other := range set {
		next[other] = set[other]
	}
	next[name] = is
	return next
}

// ask asks for something about what is selected.
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
			m.unfolded = with(m.unfolded, l.name, true) // to choose one
			m.folded = with(m.folded, l.name, false)
			return m, nil
		}
		w.hook = hooks[0]
	}
	return m, do(func() { m.wish(w) })
}

// shown is the screen that is the view.
type shown struct{ *tea.Program }

func (s shown) show(f fact)    { s.Send(f) }
func (s shown) update(n state) { s.Send(n) }

// runView runs the session below the view; end ends it.
func (s *session) runView(ctx context.Context, end func(), hurry <-chan struct{}, in io.Reader, out io.Writer) error {
	defer keepTerminal(in)()
	m := newModel(s.place.what + " · " + s.place.cluster)
	m.color = os.Getenv("NO_COLOR") == ""
	m.wish = func(w wish) { s.post(w) }
	m.end = end
	m.open = func(url string) { s.post(openPage(url)) }
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

// killLimit is how long a terminal may take to be as it was before; then only its mode is. So long hooks may take to be killed, too.
const killLimit = 3 * time.Second

// keepTerminal returns what restores the mode of a terminal, whatever else becomes of it.
func keepTerminal(in io.Reader) (restore func()) {
	if file, ok := in.(*os.File); ok {
		if before, err := term.GetState(int(file.Fd())); err == nil {
			return func() { _ = term.Restore(int(file.Fd()), before) }
		}
	}
	return func() {}
}

// openPage opens the page of the operator in a browser, if there is one.
func openPage(url string) fact {
	for _, program := range []string{"xdg-open", "open"} {
		path, err := exec.LookPath(program)
		if err != nil {
			continue
		}
		browser := exec.Command(path, url)
		if err := browser.Start(); err == nil {
			go func() { _ = browser.Wait() }() // what it says is not shown
			return newFact(aboutStart, "", "the page is opened: "+url)
		}
	}
	return newFact(aboutStart, "", "the page: "+url)
}

// elapsed is how long a module has been at it.
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

func rounded(d time.Duration) string {
	if d = max(d, 0); d < 10*time.Second {
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// isGlobal reports whether it is that of the global hooks.
func (s moduleState) isGlobal() bool { return s.Name == messages.GlobalHooks }
