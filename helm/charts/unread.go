package charts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
)

// Unread is a value that a person has set and that nothing reads: no template of the chart or of a
// subchart.
type Unread struct {
	At   []string // in the merged values of the module
	Path string   // the same as people write it, like podinfo.replicas
	// Key is the last element of Path, and Known what is read next to it: what may have been meant.
	Key   string
	Known []string
	// Hint is what to do when the whole section does not arrive; empty otherwise.
	Hint string
}

// Unread looks for values that no template reads (H23): in the section of the module, as a person
// has set it, and in the sections of subcharts in the values.yaml of a chart that is the module.
// merged are all values of the module: texts in them may be templates. What is not certain is left
// out. The templates are parsed once for a Chart.
func (c *Chart) Unread(section any, merged map[string]any) []Unread {
	key := c.module.Key
	c.reading.Do(func() { c.readers = readersOf(c.chart) })
	all := c.readers.all(c.chart, textsIn([]any{merged, c.chart.Values}))
	top := all
	if c.inner { // the section is the values of the chart
		top = &reads{below: map[string]*reads{key: all}}
	}
	u := &unread{known: c.defaults()}
	if section != nil && !c.missesSection(u, top, section) {
		u.walk(top, u.known, section, []string{key})
	}
	if !c.inner {
		for _, sub := range c.chart.Dependencies() {
			for _, name := range Sections(c.chart, sub) {
				if own, ok := c.chart.Values[name]; ok && name != key {
					u.walk(top, u.known, own, []string{name})
				}
			}
		}
		c.others(u, top)
	} else {
		fromFile := &reads{whole: all.whole, below: map[string]*reads{globalKey: cmp.Or(all.below[globalKey], &reads{})}}
		u.walk(fromFile, map[string]any{globalKey: c.global}, c.valuesFile, []string{globalKey})
	}
	slices.SortFunc(u.found, func(a, b Unread) int { return strings.Compare(a.Path, b.Path) })
	return u.found
}

// UnreadGlobal looks for values of global, as a person has set them, that none of the charts reads.
// all are the values of all modules: texts in them may be templates. One chart whose reads are not
// known makes the answer empty.
func UnreadGlobal(loaded []*Chart, set any, all map[string]any) []Unread {
	sum, u := &reads{below: map[string]*reads{globalKey: {}}}, &unread{known: map[string]any{}}
	for _, c := range loaded {
		c.reading.Do(func() { c.readers = readersOf(c.chart) })
		switch read := c.readers.all(c.chart, textsIn([]any{all, c.chart.Values})); {
		case read.whole:
			return nil
		case read.below[globalKey] != nil:
			sum.merge(read.below[globalKey], globalKey)
		}
		u.known = laid(u.known, map[string]any{globalKey: c.global})
	}
	u.walk(sum, u.known, set, []string{globalKey})
	return u.found
}

// globalOf is the section global in the values.yaml of a chart and of its subcharts. top includes the
// chart itself: the values.yaml of a chart that is the module contains the settings of a person.
func globalOf(ch *chart.Chart, top bool) map[string]any {
	all := map[string]any{}
	for _, sub := range ch.Dependencies() {
		all = laid(all, globalOf(sub, true))
	}
	if own, ok := ch.Values[globalKey].(map[string]any); ok && top {
		all = laid(all, own)
	}
	return all
}

// others reports keys of the values.yaml of a chart that is the module that belong to no subchart
// and that no template reads. Flags and maintenance modes are for the operator (A7).
func (c *Chart) others(u *unread, top *reads) {
	for _, name := range slices.Sorted(maps.Keys(c.chart.Values)) {
		if top.whole || top.below[name] != nil || c.HasSubchart(name) || strings.HasSuffix(name, "Enabled") || strings.HasSuffix(name, "Maintenance") {
			continue
		}
		u.add(top, []string{name}, "")
	}
}

// unread collects what is found.
type unread struct {
	known map[string]any // defaults of the charts in their sections
	found []Unread
}

// walk compares set values with what is read, and with defaults: a value for which a chart has a
// default is no mistake, even if no template reads it. It descends into maps while only parts of
// them are read, and reports the highest key below which nothing is read.
func (u *unread) walk(r *reads, known, set any, at []string) {
	element := at[len(at)-1]
	next := r.below[element]
	defaults, _ := known.(map[string]any)
	below, isDefault := defaults[element]
	fields, isMap := set.(map[string]any)
	switch {
	case r.whole || next != nil && (next.whole || !isMap):
		return
	case isDefault && (next == nil || !isMap):
		return
	case next == nil:
		u.add(r, at, "")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		u.walk(next, below, fields[key], append(slices.Clip(at), key))
	}
}

func (u *unread) add(r *reads, at []string, hint string) {
	u.found = append(u.found, Unread{
		At: at, Path: strings.TrimPrefix(strings.Join(dotted(at), ""), "."), Key: at[len(at)-1], Known: slices.Sorted(maps.Keys(r.below)), Hint: hint,
	})
}

// missesSection reports a section of which no template reads anything, with a hint where the chart
// reads its values: usually it was written for Helm, and belongs into chart/ (A20). It returns true
// when the section needs no further look.
func (c *Chart) missesSection(u *unread, top *reads, section any) bool {
	key := c.module.Key
	fields, isMap := section.(map[string]any)
	_, isDefault := u.known[key]
	switch {
	case top.below[key] != nil:
		return false
	case top.whole || isDefault || isMap && len(fields) == 0:
		return true
	}
	const way = "; put the unchanged chart into the directory chart/ of the module: then the chart reads the section %s"
	hint := "no template reads .Values." + key
	if len(c.chart.Dependencies()) > 0 {
		sub := c.chart.Dependencies()[0]
		hint = fmt.Sprintf("the subchart %s reads the section %s, which only a values.yaml can set"+way, sub.Name(), Sections(c.chart, sub)[0], key)
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if top.below[field] != nil && field != "global" && field != "tags" {
			hint = fmt.Sprintf("the chart reads .Values.%s, not .Values.%s.%s"+way, field, key, field, key)
			break
		}
	}
	u.add(&reads{}, []string{key}, hint)
	return true
}

// defaults are the contents of the values.yaml of charts, at their places in the values of the
// module. Those of a chart that is the module are settings of a person, not defaults.
func (c *Chart) defaults() map[string]any {
	if c.inner {
		all := defaultsOf(c.chart)
		if delete(all, globalKey); len(c.global) > 0 {
			all[globalKey] = c.global
		}
		return map[string]any{c.module.Key: all}
	}
	return defaultsBelow(c.chart)
}

func defaultsOf(ch *chart.Chart) map[string]any { return laid(defaultsBelow(ch), ch.Values) }

func defaultsBelow(ch *chart.Chart) map[string]any {
	all := map[string]any{}
	for _, sub := range ch.Dependencies() {
		for _, name := range Sections(ch, sub) {
			all[name] = defaultsOf(sub)
		}
	}
	return all
}

// laid merges maps at all depths. above wins, except that a map below stays when above has
// something else: its keys are needed as known ones. Neither is changed.
func laid(below, above map[string]any) map[string]any {
	all := maps.Clone(below)
	for key, value := range above {
		lower, ok1 := all[key].(map[string]any)
		upper, ok2 := value.(map[string]any)
		switch {
		case ok1 && ok2:
			all[key] = laid(lower, upper)
		case !ok1:
			all[key] = value
		}
	}
	return all
}

// textsIn collects texts that may be templates.
func textsIn(value any) (texts []string) {
	switch v := value.(type) {
	case string:
		if strings.Contains(v, "{{") {
			return []string{v}
		}
	case []any:
		for _, element := range v {
			texts = append(texts, textsIn(element)...)
		}
	case map[string]any:
		for _, field := range v {
			texts = append(texts, textsIn(field)...)
		}
	}
	return texts
}
