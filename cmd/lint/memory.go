package lint

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/kube"
	"addon-operator/values"
)

// Memory holds the results of a check for the next one, for 'dev', which checks at each save. What
// was found in a module, or what its chart printed, is valid until its inputs change: its files,
// and what it depends on, which are the global hooks, values and schemas, the names of the modules,
// and kinds that others bring. What hooks find out elsewhere is no input; but a hook that gave no
// answer is run again.
//
// The zero value is empty. One check uses it at a time; a check that was cancelled leaves the
// results that it has.
type Memory struct {
	charts      charts.Cache
	found       map[string]kept[[]Finding] // by directory, as the rest
	printed     map[string]kept[printed]
	definitions map[string]kept[[]map[string]any] // by file
}

// kept is a result with the sum of the inputs that it was made from.
type kept[T any] struct {
	of     [sha256.Size]byte
	result T
}

// printed is what a chart rendered to. An error is kept, too: the same inputs fail again.
type printed struct {
	documents []helm.Document
	err       error
}

// keep stores a result in a map, and returns the map, which it makes when it is nil: so the zero
// Memory works.
func keep[T any](in map[string]kept[T], name string, of [sha256.Size]byte, result T) map[string]kept[T] {
	if in == nil {
		in = map[string]kept[T]{}
	}
	in[name] = kept[T]{of, result}
	return in
}

// sumOf is the sum of inputs as JSON, whose maps are sorted. It is zero for what is no JSON.
func sumOf(inputs ...any) (sum [sha256.Size]byte) {
	text, err := json.Marshal(inputs)
	if err != nil {
		return sum
	}
	return sha256.Sum256(text)
}

// stamp notes the state of all directories before anything in them is read. A file that is saved
// during the check belongs to the next one: the stamp is then older than the file, so the results
// do not count as those of the new content.
func (c *checks) stamp() {
	c.stamps = map[string]string{}
	note := func(dir string) { c.stamps[dir] = fmt.Sprintf("%x", addons.Stamp(dir)) }
	note(c.Dirs.Global)
	for _, root := range c.Dirs.Modules {
		entries, _ := os.ReadDir(root) // loading reports the error
		for _, entry := range entries {
			if entry.Name()[0] != '.' {
				note(filepath.Join(root, entry.Name()))
			}
		}
	}
}

// depends sums up what every module depends on. It needs the loaded tree.
func (c *checks) depends() {
	var global any
	if c.global != nil {
		global = c.global.Merged()
	}
	sum := sumOf(c.stamps[c.tree.Global.Dir], global, c.Values, c.names(), c.Release, c.Tests)
	c.common = fmt.Sprintf("%x", sum)
}

// inputs is the sum of what decides the findings in a directory: its files, the values of its
// module, what all depend on, and the kinds that are known. A nil section, of values that cannot be
// read, differs from an empty one.
func (c *checks) inputs(dir string, own *values.Section) [sha256.Size]byte {
	var section any
	if own != nil {
		section = own.Merged()
	}
	return sumOf(c.stamps[dir], own == nil, section, c.common, fmt.Sprintf("%x", c.kinds.sum))
}

// once calls look, which checks one directory and adds findings, unless its inputs are those of the
// last time: then the findings of that time are added. The findings are kept only if look was
// complete and would find the same again: the directory existed when the stamps were made,
// no temporary finding was made, ctx has not ended, and no finding was dropped.
func (c *checks) once(ctx context.Context, dir string, own *values.Section, look func()) {
	of := c.inputs(dir, own)
	if known, ok := c.Memory.found[dir]; ok && known.of == of {
		c.found.list = append(c.found.list, known.result...)
		return
	}
	before := len(c.found.list)
	c.passing = false
	look()
	if _, stamped := c.stamps[dir]; stamped && !c.passing && ctx.Err() == nil && len(c.found.list) < maxFindings { // else not all was looked at
		c.Memory.found = keep(c.Memory.found, dir, of, slices.Clone(c.found.list[before:]))
	}
}

// renderOnce renders the chart, unless it was rendered before with the same inputs. The documents
// are shared with the memory, and must not be changed.
func (c chartCheck) renderOnce(ctx context.Context) ([]helm.Document, error) {
	dir := c.m.Dir
	of := c.inputs(dir, c.own)
	if known, ok := c.Memory.printed[dir]; ok && known.of == of {
		return known.result.documents, known.result.err
	}
	documents, err := c.render(ctx)
	if _, stamped := c.stamps[dir]; stamped && ctx.Err() == nil { // else the directory has come meanwhile
		c.Memory.printed = keep(c.Memory.printed, dir, of, printed{documents, err})
	}
	return documents, err
}

// read reads the definitions of a file, unless its stamp is that of the last time. An error is not
// kept, so that it is reported again.
func (m *Memory) read(file string, published bool) ([]map[string]any, error) {
	of := sumOf(fmt.Sprintf("%x", addons.Stamp(file)))
	if known, ok := m.definitions[file]; ok && known.of == of {
		return known.result, nil
	}
	found, err := kube.Definitions(file, published)
	if err == nil {
		m.definitions = keep(m.definitions, file, of, found)
	}
	return found, err
}

// forget drops the results of directories and files that do not exist any more. A directory that
// comes back may have the old stamp, but is checked again.
func (m *Memory) forget(tree *addons.Tree) {
	dirs := map[string]bool{tree.Global.Dir: true}
	for _, one := range slices.Concat(tree.Modules, tree.Broken) {
		dirs[one.Dir] = true
	}
	maps.DeleteFunc(m.found, func(dir string, _ kept[[]Finding]) bool { return !dirs[dir] })
	maps.DeleteFunc(m.printed, func(dir string, _ kept[printed]) bool { return !dirs[dir] })
	maps.DeleteFunc(m.definitions, func(file string, _ kept[[]map[string]any]) bool {
		_, err := os.Lstat(file)
		return err != nil
	})
}
