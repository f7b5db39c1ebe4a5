package actors_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/testkit"
)

// TestDiskRandom edits the files of modules and global hooks in valid and broken ways while the operator watches them
// (P8). After each edit what is in force is the last valid tree, and what stands against it is named.
//
// One operator takes editsPerSeed edits. A seed that fails is played again by -seed N, with all of its edits.
func TestDiskRandom(t *testing.T) {
	if *seedFlag != 0 {
		editAtRandom(t, *seedFlag, true)
		return
	}
	first, edits := testkit.FirstSeed(), 5**sequencesFlag
	if testing.Short() || raced {
		edits = min(edits, 5*editsPerSeed)
	}
	const workers = 4
	for worker := range uint64(workers) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for seed := first + worker; seed < first+edits/editsPerSeed; seed += workers {
				editAtRandom(t, seed, false)
			}
		})
	}
}

const editsPerSeed = 20

func editAtRandom(t *testing.T, seed uint64, verbose bool) {
	t.Helper()
	testkit.PlayLive(t, seed, func(t *testing.T, l *testkit.Live) {
		e := newEditor(l, seed)
		var wrong []string
		if err := e.begin(); err != nil {
			wrong = append(wrong, err.Error())
		}
		for range editsPerSeed {
			if len(wrong) > 0 {
				break
			}
			wrong = e.step()
		}
		if verbose || len(wrong) > 0 {
			t.Logf("edits:\n  %s\ntrace:\n%s", strings.Join(e.story, "\n  "), l.Trace())
		}
		if len(wrong) > 0 {
			t.Errorf("seed %d (again with -run TestDiskRandom -seed %d), after %q:\n  %s", seed, seed, e.story[len(e.story)-1], strings.Join(wrong, "\n  "))
		}
	})
}

// editor edits the disk, and knows what must be in force.
type editor struct {
	rnd       *rand.Rand
	live      *testkit.Live
	disk      diskTree
	written   map[string]textFile
	force     inForce
	before    inForce // before the last edit
	configMap map[string]string
	story     []string
	number    int
	pods      bool
	flips     bool // modules is a link that is pointed at another tree
}

func newEditor(l *testkit.Live, seed uint64) *editor {
	return &editor{
		rnd: rand.New(rand.NewPCG(seed, 17)), live: l, written: map[string]textFile{}, configMap: map[string]string{},
		disk:  diskTree{modules: map[string]diskModule{}, hooks: map[string]diskHook{}},
		force: inForce{modules: map[string]*versionInForce{}, hooks: map[string]diskHook{}, leaving: map[string]map[string]string{}},
		flips: seed%2 == 0,
	}
}

func pick[T any](e *editor, list ...T) T { return list[e.rnd.IntN(len(list))] }

func (e *editor) next() int { e.number++; return e.number }

// begin starts the operator with a valid tree.
func (e *editor) begin() error {
	e.disk.common = diskValues{there: true, flags: map[string]bool{"a": true, "b": true, "c": true}, size: map[string]string{}, global: 1}
	for i, name := range []string{"a", "b"} {
		e.disk.modules[name] = e.newModule((i + 1) * 10)
	}
	e.disk.hooks["g1.sh"] = diskHook{config: 1}
	if err := e.write(); err != nil {
		return err
	}
	if err := e.live.Start(); err != nil {
		return err
	}
	e.story = append(e.story, "start")
	e.force.look(e.disk, e.configMap)
	e.before = inForce{modules: map[string]*versionInForce{}}
	if wrong := e.check(e.live.Runs()); len(wrong) > 0 {
		return fmt.Errorf("at the start: %s", strings.Join(wrong, "; "))
	}
	return nil
}

func (e *editor) newModule(number int) diskModule {
	m := diskModule{number: number, chart: 1, template: e.next(), helper: 1, hooks: map[string]diskHook{}}
	for _, name := range []string{"h1.sh", "h2.sh"} {
		if e.rnd.IntN(2) == 0 {
			m.hooks[name] = e.newHook()
		}
	}
	return m
}

func (e *editor) newHook() diskHook {
	return diskHook{config: e.rnd.IntN(len(hookConfigs())), code: e.next()}
}

// step does an edit or several at once, lets the operator see it, and returns what is not as it must be.
func (e *editor) step() (wrong []string) {
	var what []string
	configMap, disk := maps.Clone(e.configMap), e.disk.clone()
	for range 1 + e.rnd.IntN(5)/2 {
		what = append(what, e.edit())
	}
	if e.refused() {
		e.configMap = configMap
		what = append(what, "(the ConfigMap as before)")
	}
	if !maps.Equal(configMap, e.configMap) { // alone: the operator looks at the disk again
		e.disk = disk
		what = append(what, "(nothing but the ConfigMap)")
	}
	e.consistent()
	e.story = append(e.story, strings.Join(what, ", "))
	e.before = e.force.clone()
	e.live.Runs()
	if err := e.write(); err != nil {
		return []string{err.Error()}
	}
	e.live.NoticeDisk()
	if err := e.live.Advance(3 * time.Second); err != nil { // a directory must be missing for a moment
		return []string{err.Error()}
	}
	e.force.look(e.disk, e.configMap)
	wrong = e.check(e.live.Runs())
	if len(wrong) == 0 {
		wrong = e.probe()
	}
	return wrong
}

// refused reports whether the ConfigMap does not fit what is in force.
func (e *editor) refused() bool {
	for name, v := range e.force.modules {
		if v.flag && !v.saysNo() && !v.own.schema.takes(v.merged(e.configMap[name])) {
			return true
		}
	}
	return false
}

// consistent takes back what the model does not describe: a module that is broken keeps its number and its enabled
// script, which is read from disk at each discovery.
func (e *editor) consistent() {
	next := e.force.clone()
	next.look(e.disk, e.configMap)
	for name, m := range e.disk.modules {
		v := e.force.modules[name]
		if v == nil || len(next.problems[name]) == 0 && brokenHook(m.hooks) == "" {
			continue
		}
		m.number, m.enabled, m.noBit = v.own.number, v.own.enabled, v.own.noBit
		e.disk.modules[name] = m
	}
}

// edit changes the disk of the model, and says how.
func (e *editor) edit() string {
	names := slices.Sorted(maps.Keys(e.disk.modules))
	if len(names) == 0 || e.rnd.IntN(8) == 0 {
		return e.editSet(names)
	}
	switch e.rnd.IntN(8) {
	case 0:
		return "common values: " + e.editCommon()
	case 1:
		return "global hooks: " + e.editHooks(e.disk.hooks, "g")
	case 2:
		if e.rnd.IntN(2) == 0 {
			return "global schema: " + e.editSchema(&e.disk.schema, "g")
		}
		return e.editConfigMap(pick(e, names...))
	}
	name := pick(e, names...)
	m := e.disk.modules[name]
	what := e.editModule(name, &m)
	e.disk.modules[name] = m
	return name + ": " + what
}

// editSet changes which modules there are.
func (e *editor) editSet(names []string) string {
	name := pick(e, "a", "b", "c")
	if _, there := e.disk.modules[name]; !there {
		e.disk.modules[name] = e.newModule(10 * (1 + e.rnd.IntN(5)))
		return "new module " + name
	}
	if len(names) > 1 && e.rnd.IntN(2) == 0 {
		delete(e.disk.modules, name)
		return "remove module " + name
	}
	m := e.disk.modules[name]
	m.number = 10 * (1 + e.rnd.IntN(5))
	e.disk.modules[name] = m
	return fmt.Sprintf("module %s has number %d", name, m.number)
}

func (e *editor) editConfigMap(name string) string {
	v := e.force.modules[name]
	if v == nil || v.own.schema.kind == "string" || e.disk.modules[name].schema.kind == "string" || e.configMap[name] != "" {
		delete(e.configMap, name)
		return "the ConfigMap has no " + name
	}
	e.configMap[name] = fmt.Sprint(e.next())
	return fmt.Sprintf("the ConfigMap has %s: {size: %s}", name, e.configMap[name])
}

// broken draws how a file is; most are fine.
func (e *editor) broken(ways ...string) string {
	if e.rnd.IntN(5) < 3 {
		return fine
	}
	return pick(e, ways...)
}

func (e *editor) editCommon() string {
	c := &e.disk.common
	*c = c.clone()
	if e.rnd.IntN(20) == 0 {
		*c = diskValues{size: map[string]string{}, flags: map[string]bool{}}
		return "no file"
	}
	c.there, c.broken = true, e.broken(syntax, nonsense, half)
	name := pick(e, "a", "b", "c")
	switch e.rnd.IntN(4) {
	case 0:
		c.global = e.rnd.IntN(3) * e.next()
	case 1:
		c.flags[name] = e.rnd.IntN(4) > 0
	default:
		c.size[name] = e.size()
	}
	return fmt.Sprintf("%q", c.text())
}

// size is a value, mostly a number.
func (e *editor) size() string {
	if e.rnd.IntN(4) == 0 {
		return fmt.Sprintf(`"s%d"`, e.next())
	}
	return fmt.Sprint(e.next())
}

func (e *editor) editSchema(s *diskSchema, field string) string {
	if s.kind != "" && e.rnd.IntN(4) == 0 {
		*s = diskSchema{}
		return "no file"
	}
	*s = diskSchema{field: field, kind: pick(e, "integer", "integer", "string"), number: e.next(), broken: e.broken(syntax, nonsense, half)}
	return fmt.Sprintf("%q", s.text())
}

func (e *editor) editHooks(all map[string]diskHook, prefix string) string {
	name := fmt.Sprintf("%s%d.sh", prefix, 1+e.rnd.IntN(3))
	h, there := all[name]
	change := e.rnd.IntN(8)
	switch {
	case !there:
		h = e.newHook()
	case change < 2:
		delete(all, name)
		return "no " + name
	case change < 4:
		h.noBit = !h.noBit
	case change < 6:
		h.code = e.next()
	default:
		h.config = e.rnd.IntN(len(hookConfigs()))
	}
	if h.broken = e.broken(syntax, nonsense, half); prefix == "g" && strings.Contains(hookConfigs()[h.config], "Helm") {
		h.config = 0 // global hooks have other bindings
	}
	all[name] = h
	return fmt.Sprintf("%s %q bit=%t", name, h.text(), !h.noBit)
}

func (e *editor) editModule(name string, m *diskModule) string {
	*m = m.clone()
	switch e.rnd.IntN(12) {
	case 0, 1:
		m.template, m.brokenTemplate = e.next(), e.broken(syntax, half, failing)
		return fmt.Sprintf("template %d %s", m.template, m.brokenTemplate)
	case 2:
		m.helper, m.brokenHelper = e.next(), e.broken(syntax, half)
		return fmt.Sprintf("helper %d %s", m.helper, m.brokenHelper)
	case 3:
		m.chart, m.brokenChart = e.next()*e.rnd.IntN(4), e.broken(syntax, nonsense, half)
		return fmt.Sprintf("chart %d %s", m.chart, m.brokenChart)
	case 4:
		m.crd = e.next() * min(1, e.rnd.IntN(4))
		return fmt.Sprintf("crd %d", m.crd)
	case 5, 6:
		return "schema " + e.editSchema(&m.schema, "size")
	case 7, 8:
		return e.editValues(name, m)
	case 9:
		m.enabled, m.noBit = pick(e, "", "true", "false"), e.rnd.IntN(4) == 0
		return fmt.Sprintf("enabled %q bit=%t", m.enabled, !m.noBit)
	}
	return e.editHooks(m.hooks, "h")
}

func (e *editor) editValues(name string, m *diskModule) string {
	if m.values.there && e.rnd.IntN(4) == 0 {
		m.values = diskValues{}
		return "no values"
	}
	m.values.there, m.values.broken = true, e.broken(syntax, nonsense, half)
	m.values.size = map[string]string{ownSize: e.size()}
	m.values.flags = map[string]bool{}
	if e.rnd.IntN(3) == 0 {
		m.values.flags[name] = e.rnd.IntN(2) == 0
	}
	return fmt.Sprintf("values %v %v %s", m.values.size, m.values.flags, m.values.broken)
}

// write makes the disk what the model says: file by file, or a whole new tree behind a link.
func (e *editor) write() error {
	for _, name := range []string{"a", "b", "c"} {
		step := "configmap-remove " + name
		if text := e.configMap[name]; text != "" {
			step = fmt.Sprintf("configmap-set %s size: %s", name, text)
		}
		if err := e.live.Step(step); err != nil {
			return err
		}
	}
	files := e.disk.files()
	defer func() { e.written = files }()
	if e.flips {
		return e.flip(files)
	}
	for path := range e.written {
		if _, there := files[path]; !there {
			if err := e.removeFile(path); err != nil {
				return err
			}
		}
	}
	for path, f := range files {
		if e.written[path] == f {
			continue
		}
		if err := writeFile(filepath.Join(e.live.Dir, path), f); err != nil {
			return err
		}
	}
	return nil
}

// removeFile also removes directories that are empty then.
func (e *editor) removeFile(path string) error {
	err := os.Remove(filepath.Join(e.live.Dir, path))
	for dir := filepath.Dir(path); strings.Count(dir, "/") > 0; dir = filepath.Dir(dir) {
		_ = os.Remove(filepath.Join(e.live.Dir, dir)) // fails while there is something in it
	}
	return err
}

// flip writes a tree as git-sync and image volumes bring it: with the times that it was made with, behind a link.
func (e *editor) flip(files map[string]textFile) error {
	tree := fmt.Sprintf("tree-%d", e.next())
	for _, dir := range []string{"modules", "global-hooks"} {
		if err := os.MkdirAll(filepath.Join(e.live.Dir, tree, dir), 0o755); err != nil {
			return err
		}
	}
	for path, f := range files {
		path = filepath.Join(e.live.Dir, tree, path)
		if err := writeFile(path, f); err != nil {
			return err
		}
		if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			return err
		}
	}
	for _, dir := range []string{"modules", "global-hooks"} {
		link := filepath.Join(e.live.Dir, dir)
		if info, err := os.Lstat(link); err == nil && info.IsDir() {
			if err := os.RemoveAll(link); err != nil { // it is empty, before the start
				return err
			}
		}
		if err := os.Symlink(filepath.Join(tree, dir), link+".new"); err != nil {
			return err
		}
		if err := os.Rename(link+".new", link); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, f textFile) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if f.bit {
		mode = 0o755
	}
	if err := os.WriteFile(path, []byte(f.text), mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// check compares what is in force with the model. runs are what hooks ran for since the edit.
func (e *editor) check(runs []string) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	status := e.live.Look().Converge
	if status.Phase != "idle" {
		say("converge is %s", status.Phase)
	}
	if got, want := status.Enabled, e.force.order(); !slices.Equal(got, want) {
		say("enabled are %v, want %v", got, want)
	}
	e.checkProblems(status.Problems, say)
	due := map[string]int{}
	skipped := map[string]bool{}
	for name, v := range e.force.modules {
		e.checkModule(name, v, say)
		e.startUps(name, v, due, skipped)
	}
	e.checkHooks(messages.GlobalHooks, hooks.Global, "", e.force.hooks, say)
	startUpsOf("", e.before.hooks, e.force.hooks, due)
	e.checkReleases(say)
	e.checkRuns(runs, due, skipped, say)
	return wrong
}

func (e *editor) checkProblems(shown map[string][]string, say func(string, ...any)) {
	keys := append(slices.Sorted(maps.Keys(e.force.modules)), "")
	for _, key := range keys {
		name := key
		name = cmp.Or(name, messages.GlobalHooks)
		text := strings.Join(shown[name], "; ")
		for _, want := range e.force.problems[key] {
			if !strings.Contains(text, "not in force") || !strings.Contains(text, want) {
				say("problems of %s are %q, which does not name %s", name, text, want)
			}
		}
		if len(e.force.problems[key]) == 0 && strings.Contains(text, "not in force") {
			say("all of %s is in force, and the problems are %q", name, text)
		}
	}
	for name, v := range e.force.modules {
		for hook, h := range v.own.hooks {
			if v.enabled && v.asked && h.noBit && !strings.Contains(strings.Join(shown[name], "; "), hook) {
				say("problems of %s are %q, which do not name %s, which is not executable", name, shown[name], hook)
			}
		}
	}
}

func (e *editor) checkModule(name string, v *versionInForce, say func(string, ...any)) {
	if !v.enabled {
		return
	}
	if v.asked {
		e.checkHooks(name, hooks.Module, fmt.Sprintf("%03d-%s/hooks/", v.own.number, name), v.own.hooks, say)
	}
	status := e.live.Module(name)
	switch {
	case status == nil:
		say("there is no module %s", name)
		return
	case v.fails != (len(status.Failing) > 0) && !v.loose:
		say("module %s fails: %v, want %t", name, status.Failing, v.fails)
	}
	if v.own.crd > 0 && !v.fails && !v.loose {
		crd := e.live.Object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", name+"things.example.com")
		if text, _ := json.Marshal(crd); !strings.Contains(string(text), fmt.Sprintf(`"d%d"`, v.own.crd)) {
			say("the CRD of %s is %s, want d%d", name, text, v.own.crd)
		}
	}
}

// checkHooks compares the hooks of an owner, and their watches.
func (e *editor) checkHooks(owner string, scope hooks.Scope, prefix string, all map[string]diskHook, say func(string, ...any)) {
	path := "module/" + owner
	if owner == messages.GlobalHooks {
		path = owner
	}
	answer, err := e.live.Ask(path, messages.ListHooks{})
	if err != nil {
		say("hooks of %s: %v", owner, err)
		return
	}
	list, _ := answer.(messages.HookList)
	want, bindings := inUse(all), []string{}
	for _, hook := range list.Hooks {
		name := strings.TrimPrefix(hook.Name, prefix)
		config, ok := want[name]
		if !ok {
			say("hook %s of %s is in force", hook.Name, owner)
			continue
		}
		delete(want, name)
		parsed, err := hooks.ParseConfig(scope, []byte("{configVersion: v1, "+hookConfigs()[config]+"}"))
		if err != nil || !parsed.Equal(hook.Config) {
			say("hook %s binds to something else than %s; %v", hook.Name, hookConfigs()[config], err)
			continue
		}
		for _, b := range parsed.Kubernetes {
			bindings = append(bindings, hook.Name+" "+b.Name)
		}
	}
	for name := range want {
		say("hook %s of %s is not in force", name, owner)
	}
	watched := []string{}
	for _, b := range e.live.Look().Monitors.Bindings {
		if b.Owner == owner {
			watched = append(watched, b.Hook+" "+b.Binding)
		}
	}
	slices.Sort(bindings)
	slices.Sort(watched)
	if v := e.force.modules[owner]; (v == nil || !v.fails && !v.loose) && !slices.Equal(bindings, watched) {
		say("watches of %s are %q, want %q", owner, watched, bindings)
	}
}

// startUps adds what hooks of a module must have run for since the last edit.
func (e *editor) startUps(name string, v *versionInForce, due map[string]int, skipped map[string]bool) {
	prefix := fmt.Sprintf("%03d-%s/hooks/", v.own.number, name)
	if !v.enabled {
		return
	}
	old := e.before.modules[name]
	if v.fails || v.loose || old != nil && (old.fails || old.loose) {
		skipped[prefix] = true // attempts repeat some
		return
	}
	var before map[string]diskHook
	if old != nil && old.enabled && old.own.number == v.own.number {
		before = old.own.hooks
	}
	startUpsOf(prefix, before, v.own.hooks, due)
}

func startUpsOf(prefix string, before, now map[string]diskHook, due map[string]int) {
	was := inUse(before)
	for name, config := range inUse(now) {
		known := map[string]bool{}
		if old, ok := was[name]; ok {
			for _, run := range startUpRuns(old) {
				known[run] = true
			}
		}
		for _, run := range startUpRuns(config) {
			if !known[run] {
				binding, _, _ := strings.Cut(run, " ")
				due[prefix+name+": "+binding]++
			}
		}
	}
}

// startUpRuns are what a hook runs for at its start, each with what makes it another one.
func startUpRuns(config int) (runs []string) {
	text := hookConfigs()[config]
	if strings.Contains(text, "onStartup") {
		runs = append(runs, "onStartup")
	}
	if strings.Contains(text, "name: pods") {
		runs = append(runs, fmt.Sprintf("pods %t", strings.Contains(text, "jqFilter")))
	}
	if strings.Contains(text, "name: services") {
		runs = append(runs, fmt.Sprintf("services %t", strings.Contains(text, "name: pods"))) // which has the first place
	}
	return runs
}

// checkRuns compares the runs at the start of hooks.
func (e *editor) checkRuns(runs []string, due map[string]int, skipped map[string]bool, say func(string, ...any)) {
	for _, run := range runs {
		hook, c, _ := strings.Cut(run, ": ")
		if i := strings.LastIndex(hook, "/"); i > 0 && skipped[hook[:i+1]] {
			continue
		}
		binding, rest, _ := strings.Cut(c, " ")
		if binding == "onStartup" || strings.HasPrefix(rest, "Synchronization") {
			due[hook+": "+binding]--
		}
	}
	for run, n := range due {
		if n != 0 {
			say("%s: runs lack (or are too many, if negative): %d; all were %q", run, n, runs)
		}
	}
}

// checkReleases compares releases and their objects.
func (e *editor) checkReleases(say func(string, ...any)) {
	var want []string
	for name, v := range e.force.modules {
		object := e.live.Object("v1", "ConfigMap", testkit.Namespace, name)
		data := dataOf(object)
		if v.loose && v.enabled { // its run may have come before
			if next := v.render(&e.force, e.configMap[name]); maps.Equal(data, next) {
				v.released = next
			}
		}
		if v.released != nil {
			want = append(want, name)
		}
		if !maps.Equal(data, v.released) {
			say("release %s has %v, want %v", name, data, v.released)
		}
		uid := uidOf(object)
		if v.uid != "" && v.uid != uid {
			say("the object of %s was made again", name)
		}
		v.uid = uid
	}
	slices.Sort(want)
	got := e.live.Releases()
	got = slices.DeleteFunc(got, func(name string) bool { return e.force.modules[name] != nil && e.force.modules[name].fails })
	want = slices.DeleteFunc(want, func(name string) bool { return e.force.modules[name].fails })
	got = slices.DeleteFunc(got, func(name string) bool { return e.force.leaving[name] != nil })
	if !slices.Equal(got, want) {
		say("releases are %v, want %v", got, want)
	}
	e.checkPurges(say)
}

// checkPurges compares the releases of modules that were removed. Their purges wait while a module in force may have
// their objects, and are tried again after half a minute at most.
func (e *editor) checkPurges(say func(string, ...any)) {
	unknown, stays := false, false
	for name := range e.disk.modules {
		v := e.force.modules[name]
		unknown = unknown || v == nil || v.enabled && (v.fails || v.loose)
		stays = stays || v.hidesObjects() && e.before.modules[name].hidesObjects()
	}
	if len(e.force.leaving) > 0 && !unknown {
		if err := e.live.Advance(31 * time.Second); err != nil {
			say("%v", err)
		}
	}
	got := e.live.Releases()
	for name, want := range maps.Clone(e.force.leaving) {
		_, back := e.disk.modules[name] // and does not load
		there, data := slices.Contains(got, name), dataOf(e.live.Object("v1", "ConfigMap", testkit.Namespace, name))
		switch {
		case there && !back && !unknown:
			say("release %s has no module, and is not purged", name)
		case !there && (stays || back && e.before.leaving[name] != nil):
			say("release %s is purged, and a module may have its objects", name)
		case there && !maps.Equal(data, want) || !there && data != nil:
			say("release %s, which has no module, has %v, want %v", name, data, want)
		}
		if !there {
			delete(e.force.leaving, name)
		}
	}
}

func dataOf(object map[string]any) map[string]string {
	fields, ok := object["data"].(map[string]any)
	if !ok {
		return nil
	}
	data := map[string]string{}
	for key, value := range fields {
		data[key] = fmt.Sprint(value)
	}
	return data
}

func uidOf(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	uid, _ := meta["uid"].(string)
	return uid
}

// probe changes an object that hooks watch: those in force see it, each once.
func (e *editor) probe() (wrong []string) {
	for _, v := range e.force.modules {
		if v.enabled && (v.fails || v.loose) {
			return nil // its hooks may wait
		}
	}
	want := map[string]int{}
	watching := func(prefix string, all map[string]diskHook, disk map[string]diskHook) (usable bool) {
		for name, config := range inUse(all) {
			if strings.Contains(hookConfigs()[config], "name: pods") {
				want[prefix+name]++
				if now, there := disk[name]; !there || now.noBit || now.broken != fine {
					return false
				}
			}
		}
		return true
	}
	if !watching("", e.force.hooks, e.disk.hooks) {
		return nil
	}
	for name, v := range e.force.modules {
		if v.enabled && !watching(fmt.Sprintf("%03d-%s/hooks/", v.own.number, name), v.own.hooks, e.disk.modules[name].hooks) {
			return nil
		}
	}
	step := "object Pod d/probe"
	if e.pods {
		step = "delete Pod d/probe"
	}
	e.pods = !e.pods
	if err := e.live.Step(step); err != nil {
		return []string{err.Error()}
	}
	runs := e.live.Runs()
	for _, run := range runs {
		if hook, c, _ := strings.Cut(run, ": "); strings.HasPrefix(c, "pods Event") {
			want[hook]--
		}
	}
	for hook, n := range want {
		if n != 0 {
			wrong = append(wrong, fmt.Sprintf("of the event %s lacks %d; runs were %q", hook, n, runs))
		}
	}
	return wrong
}

func (f inForce) clone() inForce {
	f.hooks = maps.Clone(f.hooks)
	modules := map[string]*versionInForce{}
	for name, v := range f.modules {
		one := *v
		one.own = v.own.clone()
		modules[name] = &one
	}
	f.modules, f.leaving = modules, maps.Clone(f.leaving)
	return f
}
