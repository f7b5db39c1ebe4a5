package addons

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"addon-operator/helm/charts"
	"addon-operator/values"
)

// unstableReads and unstablePause are how often files that change while they are read are read
// again, and the pause before that: after about a second they are not in force.
const (
	unstableReads = 20
	unstablePause = 50 * time.Millisecond
)

var errUnstable = errors.New("its files keep changing; write them at once, for example by moving a directory into place")

// Refresh compares the tree with the files on disk and returns the next one; t does not change.
// What is broken keeps its version in t. An error means that a root cannot be read at all, which
// says nothing about its modules.
//
// Roots that are links may be switched to another tree meanwhile, as git-sync does. Then all of it is
// read again: values.yaml of a root and the modules in it must not be of two commits.
func (t *Tree) Refresh(dirs Dirs) (*Tree, error) {
	before := targets(dirs)
	for range unstableReads {
		r := refresh{before: t, next: &Tree{dirs: dirs}}
		err := r.read()
		now := targets(dirs)
		switch {
		case !slices.Equal(now, before):
		case err != nil:
			return nil, err
		default:
			return r.next, nil
		}
		before = now
	}
	return nil, errors.New("the directories of modules are links that keep changing")
}

// targets are the directories that the roots lead to, and the versions of their values.yaml.
func targets(dirs Dirs) (targets []string) {
	for _, dir := range append(slices.Clone(dirs.Modules), dirs.Global) {
		target, _ := filepath.EvalSymlinks(dir) // "" without one
		targets = append(targets, target, fileStamp(commonPath(dir)))
	}
	return targets
}

// Module finds a module by its name; nil when there is none. It is a part of the tree.
func (t *Tree) Module(name string) *Module {
	i := slices.IndexFunc(t.Modules, func(m Module) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &t.Modules[i]
}

// refresh computes the next tree from the one before and the files on disk: it compares the files
// with what was loaded, and loads again what differs. What does not load keeps its last version
// that did, which becomes one of its problems.
type refresh struct {
	before, next *Tree
	first        bool    // nothing was loaded before: what does not load is an error
	errs         []error // of the first load
}

// read computes all of it. Its error is about roots that cannot be read.
func (r *refresh) read() error {
	entries, misnamed, unread := r.next.find()
	for _, err := range misnamed {
		r.refuse(err, err.Error())
	}
	r.common()
	r.global()
	var looks errgroup.Group // most of the time is for reading files
	looks.SetLimit(runtime.GOMAXPROCS(0))
	for i, m := range entries {
		looks.Go(func() error {
			var known contents
			if old := r.before.Module(m.Name); old != nil && old.Dir == m.Dir {
				known = old.files
			}
			entries[i].files = look(m.Dir, known)
			return nil
		})
	}
	_ = looks.Wait()
	for _, m := range entries {
		r.module(r.before.Module(m.Name), m)
	}
	r.next.warnUnknownFlags()
	return unread
}

// refuse reports what is not in force: with the first load an error, later a problem in these words.
func (r *refresh) refuse(err error, text string) {
	if r.first {
		r.errs = append(r.errs, err)
		return
	}
	r.next.problem(&r.next.Global.Problems, "%s", text)
}

// common reads the values.yaml of the roots (A13). One that is wrong keeps its last version, without
// affecting those of other roots.
func (r *refresh) common() {
	t := r.next
	for _, root := range t.dirs.Modules {
		path := commonPath(root)
		before := rootValues{path: path, shown: t.dirs.Shown(path)}
		if i := slices.IndexFunc(r.before.common, func(r rootValues) bool { return r.path == path }); i >= 0 {
			before = r.before.common[i]
		}
		now, err := before.again()
		if err != nil {
			r.refuse(err, kept(err))
			now = before
		}
		t.common = append(t.common, now)
	}
}

// global compares the files of global hooks and schemas. Its static values always are those of the
// roots, which common has read.
func (r *refresh) global() {
	t, before, dir := r.next, r.before.Global, absolute(r.next.dirs.Global)
	problems := t.Global.Problems // of the values.yaml of the roots
	files := look(dir, before.files)
	next := before
	next.refused, next.files = nil, files
	var err error
	if files.all != before.files.all {
		var fresh Tree
		err = stable(files, func() contents { return look(dir, files) }, func(read contents) error {
			fresh = Tree{dirs: t.dirs, common: t.common}
			err := fresh.loadGlobal(dir)
			fresh.Global.files = read
			return cmp.Or(err, read.lostSince(before.files, dir, t.dirs.Shown(dir)))
		})
		if next = before; err == nil || r.first {
			next, t.Warnings, t.Problems = fresh.Global, append(t.Warnings, fresh.Warnings...), append(t.Problems, fresh.Problems...)
		}
	}
	next.Static = t.common.sections(values.GlobalKey)
	t.Global = next
	t.Global.Problems = problems
	if err != nil {
		t.Global.refused = &Global{HooksDir: next.HooksDir, files: files, Static: next.Static}
		r.refuse(err, kept(err))
	}
}

// module adds a module that was found and looked at, loaded again if its files differ from those of old.
func (r *refresh) module(old *Module, m Module) {
	t, files := r.next, m.files
	if old != nil && old.Dir == m.Dir && files.all == old.files.all {
		same := *old
		same.doubles, same.files, same.stale = m.doubles, files, ""
		t.add(same)
		return
	}
	fresh, one := m, Tree{}
	err := stable(files, func() contents { return look(m.Dir, files) }, func(read contents) (err error) {
		one = Tree{dirs: t.dirs, common: t.common}
		fresh, err = readAgain(&one, m, read, old)
		return err
	})
	if err == nil || r.first {
		t.Warnings, t.Problems = append(t.Warnings, one.Warnings...), append(t.Problems, one.Problems...)
	}
	switch {
	case err == nil:
		t.add(fresh)
	case old == nil:
		t.combine(&fresh)
		t.Broken = append(t.Broken, fresh)
		r.refuse(err, "module "+m.Name+" is not in force: "+oneLine(err))
	default:
		last := old.placed(m)
		t.keep(&last, err)
		t.add(last)
	}
}

// readAgain reads a module whose files are those that were looked at. It fails when the module is gone,
// and when it has lost content since the old version. A module may lose its values.yaml: its
// directory is replaced as a whole.
func readAgain(t *Tree, m Module, read contents, old *Module) (Module, error) {
	if err := t.readModule(&m); err != nil {
		return m, err
	}
	m.files = read
	switch {
	case m.Gone():
		return m, fmt.Errorf("%s: %w", m.Shown(m.Dir), os.ErrNotExist)
	case old == nil:
		return m, nil
	case m.ownEmpty && hasValues(old.own):
		return m, emptied(m.Shown(m.valuesFile()), noContent)
	}
	return m, read.lostSince(old.files, m.Dir, m.Shown(m.Dir))
}

// placed returns the module as it was loaded, in the directory in which it was found now.
func (m Module) placed(now Module) Module {
	m.Dir, m.Root, m.Base, m.shown, m.Order, m.doubles = now.Dir, now.Root, now.Base, now.shown, now.Order, now.doubles
	return m
}

// add completes a module with what the values.yaml of the roots say about it.
func (t *Tree) add(m Module) {
	t.combine(&m)
	t.Modules = append(t.Modules, m)
}

// Keep replaces a module by its version in the tree before, because the one on disk was refused:
// with its static values, those of the roots' files as well, because they may be the reason. Flags
// there are as new as the files, so that a person can disable a broken module. The order is new as
// well: it is part of the name of the directory.
func (t *Tree) Keep(name string, before *Tree, why error) {
	if m, old := t.Module(name), before.Module(name); m != nil && old != nil {
		last := old.placed(*m)
		if m.stale != "" { // there is more than one reason
			why = fmt.Errorf("%s; %w", strings.TrimPrefix(m.stale, keptBecause), why)
		}
		t.keep(&last, why)
		t.combine(&last)
		*m = last
	}
}

// Drop removes a new module that cannot be used: it has no last version to keep.
func (t *Tree) Drop(name string, why error) {
	if m := t.Module(name); m != nil {
		t.problem(&t.Global.Problems, "module %s is not in force: %s", name, oneLine(why))
		t.Broken = append(t.Broken, *m)
		t.Modules = slices.DeleteFunc(t.Modules, func(m Module) bool { return m.Name == name })
	}
}

// KeepGlobal is Keep for what belongs to all modules. It records what was refused, see Refused.
func (t *Tree) KeepGlobal(before *Tree, why error) {
	problems, refused := t.Global.Problems, t.Global
	t.Global = before.Global
	t.Global.Problems, t.Global.refused = problems, &refused
	t.problem(&t.Global.Problems, "%s", kept(why))
}

// keep marks a module as stale, and reports why.
func (t *Tree) keep(m *Module, why error) {
	m.stale = kept(why)
	t.Warnings, t.Problems = append(t.Warnings, "module "+m.Name+": "+m.stale), append(t.Problems, m.stale)
}

// kept words that something on disk is not in force.
func kept(why error) string { return keptBecause + oneLine(why) }

const keptBecause = "changed on disk, but not in force; the last version that loaded stays: "

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// stable calls read until the files are the same before and after: it must not see half of a
// change. before are the files as they were looked at a moment ago. An error of read counts only when they
// are the same, because a file that is half written rarely parses.
func stable(before contents, look func() contents, read func(contents) error) error {
	for range unstableReads {
		err := read(before)
		after := look()
		if after.stamp == before.stamp && after.all == before.all {
			return err
		}
		before = after
		time.Sleep(unstablePause)
	}
	return errUnstable
}

// contents are the checksums of the files below a directory.
type contents struct {
	// stamp changes when a file appears, disappears, or changes its size, time or mode.
	stamp sum
	// settled: no file was written just before it was read. If one was, a second write in the same
	// tick of the file system's clock may leave the stamp as it is, so an equal stamp proves
	// nothing.
	settled bool
	// all is that of all files that count, and run that of the chart and of what values come from.
	all, run sum
	// content has the files that count, and whether they have content. See lost.
	content map[string]bool
}

// lostSince is why a tree that has lost content must not be in force, see contents.lost. shown is the
// directory as messages name it.
func (c contents) lostSince(before contents, dir, shown string) error {
	lost := c.lost(dir, before)
	if lost == "" {
		return nil
	}
	name := shown + "/" + lost
	info, err := os.Stat(filepath.Join(dir, lost))
	switch {
	case strings.HasSuffix(lost, "/"):
		return fmt.Errorf("%s has no files, but it had some; restore them, or write a file with a comment there if what came from them is to be deleted", name)
	case err != nil || !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file any more, nor a link to one; restore it, or remove it", name)
	}
	return fmt.Errorf("%s is empty, but it had content; restore it, or remove the file", name)
}

// Same reports whether a module equals another version of itself, in its files and in what the
// roots say.
func (m Module) Same(n Module) bool {
	return m.SameValues(n) && m.Order == n.Order && m.Maintenance == n.Maintenance && slices.Equal(m.Flags, n.Flags)
}

// Files is the checksum of the files in the directory of the module.
func (m Module) Files() string { return string(m.files.all[:]) }

// SameFiles reports whether the files in the directory of the module are the same.
func (m Module) SameFiles(n Module) bool { return m.Dir == n.Dir && m.files.all == n.files.all }

// SameValues reports whether files and static values are the same.
func (m Module) SameValues(n Module) bool {
	return m.SameFiles(n) && reflect.DeepEqual(m.Static, n.Static)
}

// Stale returns why the files on disk are not in force; "" if they are.
func (m Module) Stale() string { return m.stale }

// Stale reports whether something on disk was refused.
func (t *Tree) Stale() bool {
	return t.Global.refused != nil || slices.ContainsFunc(t.Modules, func(m Module) bool { return m.stale != "" })
}

// SameFiles reports whether the files of global hooks and schemas are the same.
func (g Global) SameFiles(n Global) bool {
	return g.HooksDir == n.HooksDir && g.files.all == n.files.all
}

// Same reports whether files and static values are the same.
func (g Global) Same(n Global) bool { return g.SameFiles(n) && reflect.DeepEqual(g.Static, n.Static) }

// Refused reports whether the files on disk are those that were refused when g stayed in force.
// They would be refused again, unless the ConfigMap, the Secret, or something that a hook depends
// on has changed.
func (g Global) Refused(now Global) bool { return g.refused != nil && g.refused.Same(now) }

// changedOnDisk begins the description of a difference.
const changedOnDisk = "changed on disk since it was loaded: "

// Unloaded compares what was loaded with the files as they are now. It returns by module which
// files differ and were not loaded yet; at the key "" what concerns all of them, and which modules
// are new. What was refused is left out: it is a problem already. It changes nothing, and is safe
// to call while another goroutine refreshes.
func (t *Tree) Unloaded(dirs Dirs) map[string]string {
	changed := map[string]string{}
	for _, m := range t.Modules {
		if m.stale == "" && look(m.Dir, m.files).all != m.files.all {
			changed[m.Name] = changedOnDisk + m.Shown(m.Dir)
		}
	}
	var common []string
	if t.Global.differs(func(c contents) sum { return c.all }) {
		common = append(common, dirs.Shown(t.Global.Dir))
	}
	for _, root := range t.common {
		if root.differs(t.Global.Problems) {
			common = append(common, root.shown)
		}
	}
	found, _, err := (&Tree{dirs: dirs}).find()
	if err != nil {
		common = append(common, oneLine(err))
	}
	for _, m := range found {
		if t.Module(m.Name) == nil && !slices.ContainsFunc(t.Broken, func(b Module) bool { return b.Name == m.Name }) {
			common = append(common, fmt.Sprintf("the module %s in %s is new", m.Name, m.shown))
		}
	}
	if len(common) > 0 {
		changed[""] = changedOnDisk + strings.Join(common, ", ")
	}
	return changed
}

// differs reports whether the file is another one than that in force. What was refused is among the
// problems already.
func (r rootValues) differs(problems []string) bool {
	now, err := r.again()
	if err != nil {
		return !slices.Contains(problems, kept(err))
	}
	return !reflect.DeepEqual(now.document, r.document)
}

// differs reports whether files are others than those in force, and were not refused.
func (g Global) differs(of func(contents) sum) bool {
	now := of(look(g.Dir, g.files))
	return now != of(g.files) && (g.refused == nil || now != of(g.refused.files))
}

// Outdated names files that a run of a module reads, and that are not on disk as they are in force;
// "" if there are none. What is read now, such as the chart, must not be combined with the values
// that are in force: it may be of another version (P8). It reads no file whose stamp is the same.
func (t *Tree) Outdated(name string) string {
	m := t.Module(name)
	switch {
	case m == nil:
		return "the module " + name
	case look(m.Dir, m.files).run != m.files.run:
		return m.Shown(m.Dir)
	case t.Global.differs(func(c contents) sum { return c.run }):
		return t.dirs.Shown(t.Global.Dir)
	}
	for _, root := range t.common {
		if root.differs(t.Global.Problems) {
			return root.shown
		}
	}
	return ""
}

type sum [sha256.Size]byte

// The limits of a directory. What is beyond them is not compared; of a file that cannot be read, or is
// larger than values may be, only size and time are.
const (
	maxDepth   = 32 // stops at symbolic links that point upwards
	maxFiles   = 100_000
	settleTime = time.Second // coarser than the times of any file system in use
)

// look reads the files below a directory, unless their stamp is the known one: then known is
// returned, which is the usual case, and costs no more than the names and times of the files.
func look(dir string, known contents) contents {
	var files []foundFile
	find(dir, "", &files)
	now := contents{stamp: stampOf(files), settled: true, content: map[string]bool{}}
	// Another tree behind the same link may have the same times and sizes: trees that are made to
	// be reproducible do.
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		now.stamp = sha256.Sum256(append(now.stamp[:], target...))
	}
	for _, f := range files {
		if time.Since(f.info.ModTime()) < settleTime {
			now.settled = false
		}
	}
	if known.settled && known.stamp == now.stamp {
		return known
	}
	all, run := sha256.New(), sha256.New()
	for _, f := range files {
		if !counts(f.name) {
			continue
		}
		one, has := f.sum(dir)
		now.content[f.name] = has
		all.Write(one[:])
		if inRun(f.name) {
			run.Write(one[:])
		}
	}
	all.Sum(now.all[:0])
	run.Sum(now.run[:0])
	return now
}

// lost finds what had content before and has none now (charts.Lost). A file that is gone is one that
// was removed, unless something else has its name, or a link above it points to nothing.
func (c contents) lost(dir string, before contents) string {
	for _, name := range slices.Sorted(maps.Keys(before.content)) {
		if _, there := c.content[name]; before.content[name] && !there && inTheWay(dir, name) {
			return name
		}
	}
	return charts.Lost(before.content, c.content, func(below string) bool {
		for name := range c.content {
			if !strings.Contains("/"+name, "/templates/") {
				continue
			}
			text, err := readFile(filepath.Join(dir, filepath.FromSlash(name)))
			if err == nil && charts.Reads(text, below) {
				return true
			}
		}
		return false
	})
}

// inTheWay reports whether something else has the name of a file, or a link above it points to
// nothing.
func inTheWay(dir, name string) bool {
	for at := name; at != "."; at = path.Dir(at) {
		file := filepath.Join(dir, filepath.FromSlash(at))
		info, err := os.Lstat(file)
		if err != nil {
			continue
		}
		_, err = os.Stat(file)
		return at == name || info.Mode().Type() == fs.ModeSymlink && errors.Is(err, fs.ErrNotExist)
	}
	return false
}

// foundFile is a file with the metadata of its target: links are followed.
type foundFile struct {
	name string // with slashes, from the directory on
	info fs.FileInfo
}

// stamp is what can be seen without reading the file.
func (f foundFile) stamp() []byte {
	return fmt.Appendf(nil, "%d %d %o %s\x00", f.info.Size(), f.info.ModTime().UnixNano(), f.info.Mode(), f.name)
}

func stampOf(files []foundFile) (stamp sum) {
	all := sha256.New()
	for _, f := range files {
		all.Write(f.stamp())
	}
	all.Sum(stamp[:0])
	return stamp
}

// sum is the checksum of name, mode and content, or of the stamp of a file that cannot be read or
// is too large. has reports whether the file has content.
func (f foundFile) sum(dir string) (s sum, has bool) {
	text, err := readFile(filepath.Join(dir, filepath.FromSlash(f.name)))
	if err != nil {
		return sha256.Sum256(f.stamp()), f.info.Mode().IsRegular() && f.info.Size() > 0
	}
	head := fmt.Appendf(nil, "%s\x00%o\x00", f.name, f.info.Mode().Perm()&0o111) // x bits decide whether a file is a hook
	return sha256.Sum256(append(head, text...)), charts.HasContent(text)
}

// find lists the files below a directory in order, through symbolic links. Hidden files and the
// copies that editors make do not count.
func find(dir, below string, files *[]foundFile) {
	entries, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(below)))
	if err != nil || strings.Count(below, "/") > maxDepth {
		return
	}
	for _, entry := range entries {
		name := path.Join(below, entry.Name())
		info, err := fs.FileInfo(nil), error(nil)
		if !entry.IsDir() {
			info, err = os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
		}
		switch {
		case err != nil || isLeftover(entry.Name()) || len(*files) >= maxFiles: // err: a broken link, or just deleted
		case info == nil || info.IsDir():
			find(dir, name, files)
		default:
			*files = append(*files, foundFile{name, info})
		}
	}
}

// isLeftover reports whether a name is hidden, or that of a copy that an editor makes. .helmignore
// decides which files are part of a chart.
func isLeftover(name string) bool {
	return strings.HasPrefix(name, ".") && name != ".helmignore" || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}

// counts reports whether a file is part of a module, or of the global hooks. Documentation and tests are not, but a
// program next to them may be a hook.
func counts(name string) bool {
	top, _, below := strings.Cut(name, "/")
	word := slices.Contains([]string{".yaml", ".json", ".md", ".txt"}, path.Ext(name)) // never hooks
	return !(!below && path.Ext(name) == ".md" || below && word && (top == "tests" || top == "docs"))
}

// inRun reports whether a run combines a file with values that are in force: the chart, and what
// values come from. A hook may write other files. Hooks themselves do not count: what they set is
// checked, and used, whatever their version.
func inRun(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return slices.Contains([]string{"templates", "charts", "chart", "openapi", "Chart.yaml", "values.yaml", moduleFile}, top)
}

// lookEvery is how often the files are compared. Looks take at most one part in so many of the time, however many
// files there are: Seldom for an operator, which is idle most of the time, and Often where a person waits. A change
// is seen after lookLatest, unless that is more than Often. A change is reported when a look finds nothing newer,
// because a tree is half written until then, but after quietLimit at the latest.
const (
	lookEvery  = 100 * time.Millisecond
	lookLatest = 3 * time.Second
	Seldom     = 1000
	Often      = 50
	quietLimit = 5 * time.Second
)

// Watch looks at the files below the directories until ctx ends, in a goroutine of its own, and calls notify when they
// have changed: in their names, sizes, times or modes, or because a root or a module is a link that leads elsewhere.
// It does not ask the kernel for notifications, which network file systems and links to other trees do not have. share
// is Seldom or Often.
func Watch(ctx context.Context, dirs Dirs, share int, notify func()) {
	seen := lookAt(dirs) // before the goroutine begins: what changes after Watch has returned is noticed
	go func() {
		pause, last, since := lookEvery, seen, time.Time{}
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			began := time.Now()
			now := lookAt(dirs)
			took := time.Since(began)
			pause = max(lookEvery, min(time.Duration(share)*took, lookLatest), Often*took)
			switch quiet := now == last; {
			case now == seen:
				since = time.Time{}
			case since.IsZero():
				since, pause = began, max(lookEvery, Often*took)
			case quiet || began.Sub(since) > quietLimit:
				seen, since = now, time.Time{}
				notify()
			}
			last = now
		}
	}()
}

// lookAt returns a checksum of what can be seen of all files without reading them.
func lookAt(dirs Dirs) (seen sum) {
	all := sha256.New()
	for _, root := range append(slices.Clone(dirs.Modules), dirs.Global) {
		entries, _ := os.ReadDir(root)
		for _, entry := range entries {
			if isLeftover(entry.Name()) {
				continue
			}
			// Trees that are made to be reproducible have the same times and sizes.
			target, _ := filepath.EvalSymlinks(filepath.Join(root, entry.Name()))
			fmt.Fprintf(all, "%s\x00%s\x00", entry.Name(), target)
		}
		var files []foundFile
		find(root, "", &files)
		stamp := stampOf(files)
		all.Write(stamp[:])
	}
	all.Sum(seen[:0])
	return seen
}

// Files returns the files below a directory that are compared, by their names in it, each with a
// text that changes when the file is written: size, time and mode.
func Files(dir string) map[string]string {
	var found []foundFile
	find(dir, "", &found)
	files := make(map[string]string, len(found))
	for _, f := range found {
		files[f.name] = string(f.stamp())
	}
	return files
}
