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

// Memory is what a check leaves for the next one, for who looks at each save: what was found in a module, or what its chart printed,
// is so until its files change, or what it depends on: the global hooks, values and schemas, the names of the modules, and kinds
// that others bring. What hooks find out elsewhere is not noticed, but one that did not answer is asked again. The zero value is empty. One check uses it at a time; one
// that was cancelled leaves what it has done.
type Memory struct {
	charts      charts.Cache
	found       map[string]kept[[]Finding] // by directory, as the rest
	printed     map[string]kept[printed]
	definitions map[string]kept[[]map[string]any] // by file
}

// kept is the result of inputs that had a sum.
type kept[T any] struct {
	of     [sha256.Size]byte
	result T
}

// printed is what a chart rendered to.
type printed struct {
	documents []helm.Document
	err       error
}

// keep remembers a result in a map, which it returns.
func keep[T any](in map[string]kept[T], name string, of [sha256.Size]byte, result T) map[string]kept[T] {
	if in == nil {
		in = map[string]kept[T]{}
	}
	in[name] = kept[T]{of, result}
	return in
}

// sumOf is that of inputs; of what cannot be written there is none.
func sumOf(inputs ...any) (sum [sha256.Size]byte) {
	text, err := json.Marshal(inputs)
	if err != nil {
		return sum
	}
	return sha256.Sum256(text)
}

// stamp notes how all directories are before anything in them is read: what was saved meanwhile must not count as looked at.
func (c *checks) stamp() {
	c.stamps = map[string]string{}
	note := func(dir string) { c.stamps[dir] = fmt.Sprintf("%x", addons.Stamp(dir)) }
	note(c.Dirs.Global)
	for _, root := range c.Dirs.Modules {
		entries, _ := os.ReadDir(root) // loading says why not
		for _, entry := range entries {
			if entry.Name()[0] != '.' {
				note(filepath.Join(root, entry.Name()))
			}
		}
	}
}

// depends notes what every module depends on.
func (c *checks) depends() {
	var global any
	if c.global != nil {
		global = c.global.Merged()
	}
	sum := sumOf(c.stamps[c.tree.Global.Dir], global, c.Values, c.names(), c.Release, c.Tests)
	c.common = fmt.Sprintf("%x", sum)
}

// inputs are what is looked at in a directory: its files, the values of its module, what all depend on, and kinds.
func (p *pass) inputs(dir string, own *values.Section) [sha256.Size]byte {
	var section any
	if own != nil {
		section = own.Merged()
	}
	return sumOf(p.stamps[dir], own == nil, section, p.common, fmt.Sprintf("%x", p.kinds.sum))
}

// once looks at a directory, unless it was looked at before with the same inputs: then it is as it was found.
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
		c.Memory.found = keep(c.Memory.found, dir, of, append([]Finding(nil), c.found.list[before:]...))
	}
}

// renderOnce renders the chart, unless it has rendered before with the same inputs.
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

// read reads the definitions of a file, unless it is as it was.
func (m *Memory) read(file string) ([]map[string]any, error) {
	of := sumOf(fmt.Sprintf("%x", addons.Stamp(file)))
	if known, ok := m.definitions[file]; ok && known.of == of {
		return known.result, nil
	}
	found, err := kube.Definitions(file)
	if err == nil {
		m.definitions = keep(m.definitions, file, of, found)
	}
	return found, err
}

// forget drops what is no longer there.
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
