package bring

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/actors/scenario"
	"addon-operator/helm/dryrun"
	"addon-operator/helm/manifest"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// showDefaults prints which defaults of the chart change, with those of its subcharts. The
// comparison is that of objects, below a key of its own.
func (u *upgrade) showDefaults() {
	const top = "values" // what is compared is no object: a default may be called status
	change := dryrun.Change{Before: map[string]any{top: u.old.All}, After: map[string]any{top: u.fresh.All}, Verb: dryrun.Changed}
	fields := change.Fields(true)
	if len(fields) == 0 {
		fmt.Fprintln(u.out, "\nDefaults of the chart: no change.")
		return
	}
	fmt.Fprintln(u.out, "\nDefaults of the chart:")
	for _, f := range fields {
		path := strings.TrimPrefix(strings.TrimPrefix(f.Path, top), ".")
		switch {
		case f.Before == nil:
			fmt.Fprintf(u.out, "    + %s: %s\n", path, brief(f.After))
		case f.After == nil:
			fmt.Fprintf(u.out, "    - %s: %s\n", path, brief(f.Before))
		default:
			fmt.Fprintf(u.out, "    ~ %s: %s -> %s\n", path, brief(f.Before), brief(f.After))
		}
	}
}

// brief is a value on one line, cut after 200 bytes.
func brief(value any) string {
	const longest = 200
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return values.Shorten(string(text), longest)
}

// showObjects prints how definitions and objects change. It returns an error when the new chart
// does not render with the values and the old one did, unless --force is given; when the old one
// did not either, the upgrade may be the repair.
func (u *upgrade) showObjects(ctx context.Context) error {
	before, oldErr := u.render(ctx, false)
	after, newErr := u.render(ctx, true)
	switch {
	case newErr != nil && oldErr == nil && !u.force:
		return errors.New(u.words("upgrade-chart: nothing is written: the new chart does not render with the values WHERE: %v; change them first, or use --force", newErr))
	// With --force, or when the upgrade may be the repair, objects are unknown and the rest goes
	// on.
	case newErr != nil || oldErr != nil:
		_, err := io.WriteString(u.out, u.words("\nObjects are unknown: the chart does not render with the values WHERE: %v\n", cmp.Or(newErr, oldErr)))
		return err
	}
	if lines := definitionChanges(before.crds, after.crds); len(lines) > 0 {
		fmt.Fprintln(u.out, "\nCRDs in crds/:")
		for _, line := range lines {
			fmt.Fprintln(u.out, "    "+line)
		}
	}
	// Each chart renders twice, to tell a change of the chart from one that each render makes.
	beforeAgain, oldErr := u.render(ctx, false)
	afterAgain, newErr := u.render(ctx, true)
	if err := cmp.Or(oldErr, newErr); err != nil {
		return fmt.Errorf("upgrade-chart: %w", err)
	}
	old, fresh := before.all(), after.all()
	// This changes the objects of fresh, of which byIdentity holds the same maps.
	withoutChance(twice{byIdentity(old), byIdentity(beforeAgain.all())}, twice{byIdentity(fresh), byIdentity(afterAgain.all())})
	objects := u.objectChanges(old, fresh)
	if len(objects) == 0 {
		fmt.Fprintln(u.out, u.words("\nObjects: no change with the values WHERE."))
		return nil
	}
	fmt.Fprintln(u.out, u.words("\nObjects, with the values WHERE:"))
	// The whole text at once: a secret of several lines would not be found line by line.
	var text bytes.Buffer
	err := u.print(&text, objects)
	_, writeErr := io.WriteString(u.out, u.hidden(text.String()))
	return errors.Join(err, writeErr)
}

// render renders the module in its place, or, with its new chart, on the stage.
func (u *upgrade) render(ctx context.Context, fresh bool) (rendered, error) {
	m, global := u.module, u.global
	if fresh {
		staged, stagedGlobal, err := u.stage.load(u.module.Base)
		if err != nil {
			return rendered{}, err
		}
		m, global = staged, stagedGlobal
	}
	// The values of people are the same for both charts; defaults of schemas may differ.
	merged, err := u.configured.merged(m, global)
	if err != nil {
		return rendered{}, err
	}
	return render(ctx, m, merged)
}

// twice is two renders of one chart with the same values, by object.
type twice struct {
	once, again map[manifest.Object]map[string]any
}

// withoutChance puts the old values into new objects where both charts make another one at each
// render, such as a generated password: that is no change of the chart.
func withoutChance(old, fresh twice) {
	for id, o := range fresh.once {
		if old.once[id] != nil && old.again[id] != nil && fresh.again[id] != nil {
			steady(old.once[id], old.again[id], o, fresh.again[id])
		}
	}
}

// steady returns the new value, with the old one wherever the two old values differ and the two new
// ones do. It changes maps and lists of fresh in place. What one of the four lacks stays as it is.
func steady(old, oldAgain, fresh, freshAgain any) any {
	switch next := fresh.(type) {
	case map[string]any:
		others := [...]map[string]any{mapOf(old), mapOf(oldAgain), mapOf(freshAgain)}
		// A key that one of the others lacks was added or removed, which is a change.
		for key, value := range next {
			a, ok1 := others[0][key]
			b, ok2 := others[1][key]
			c, ok3 := others[2][key]
			if ok1 && ok2 && ok3 {
				next[key] = steady(a, b, value, c)
			}
		}
		return next
	case []any:
		for i, item := range next {
			a, ok1 := partner(old, i, item)
			b, ok2 := partner(oldAgain, i, item)
			c, ok3 := partner(freshAgain, i, item)
			if ok1 && ok2 && ok3 {
				next[i] = steady(a, b, item, c)
			}
		}
		return next
	}
	if !reflect.DeepEqual(old, oldAgain) && !reflect.DeepEqual(fresh, freshAgain) {
		return old
	}
	return fresh
}

// mapOf is the value as a map; nil, which can be read like an empty one, when it is none.
func mapOf(value any) map[string]any {
	fields, _ := value.(map[string]any)
	return fields
}

// partner finds the counterpart of an item in another list: the item with the same name, such as a
// container, or the one in the same place when items have no names.
func partner(list any, i int, item any) (any, bool) {
	items, _ := list.([]any)
	if name := mapOf(item)["name"]; name != nil {
		i = slices.IndexFunc(items, func(other any) bool { return reflect.DeepEqual(mapOf(other)["name"], name) })
	}
	if i < 0 || i >= len(items) {
		return nil, false
	}
	return items[i], true
}

// objectChanges compares objects as a plan does, in the order of their identities. Objects that
// stay the same are left out; so are changes only in secrets, unless they are shown.
func (u *upgrade) objectChanges(before, after []map[string]any) (plans []view.ObjectPlan) {
	old, fresh := byIdentity(before), byIdentity(after)
	all := maps.Clone(old)
	maps.Copy(all, fresh)
	keys := slices.SortedFunc(maps.Keys(all), func(a, b manifest.Object) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		// Changed until one side is missing.
		change := dryrun.Change{Object: key, Before: old[key], After: fresh[key], Verb: dryrun.Changed}
		switch {
		case change.Before == nil:
			change.Verb = dryrun.Created
		case change.After == nil:
			change.Verb = dryrun.Deleted
		case len(change.Fields(u.secrets)) == 0:
			continue
		}
		plans = append(plans, view.ObjectPlan{Object: key.String(), Verb: string(change.Verb), Diff: change.Diff(u.secrets)})
	}
	return plans
}

// byIdentity maps objects by group, kind, namespace and name. Another version of a kind is the same
// object, and a namespace that is that of the release equals none.
func byIdentity(objects []map[string]any) map[manifest.Object]map[string]any {
	all := make(map[manifest.Object]map[string]any, len(objects))
	for _, o := range objects {
		key := identify(o)
		if key.GVK.Version = ""; key.Namespace == scenario.Namespace {
			key.Namespace = ""
		}
		all[key] = o
	}
	return all
}

// definitionChanges names the definitions that are added, removed and changed, in the order of
// their names. Versions are what people must act upon; schemas are too long to be shown.
func definitionChanges(before, after []map[string]any) (lines []string) {
	old, fresh := byIdentity(before), byIdentity(after)
	all := maps.Clone(old)
	maps.Copy(all, fresh)
	for key := range all {
		a, was := old[key]
		b, is := fresh[key]
		switch {
		case !was:
			lines = append(lines, fmt.Sprintf("+ %s (%s)", key.Name, versionsOf(b)))
		// The operator never deletes definitions (M5).
		case !is:
			lines = append(lines, fmt.Sprintf("- %s: it stays in the cluster with its objects", key.Name))
		case versionsOf(a) != versionsOf(b):
			lines = append(lines, fmt.Sprintf("~ %s: %s -> %s", key.Name, versionsOf(a), versionsOf(b)))
		case len(dryrun.Change{Before: a, After: b, Verb: dryrun.Changed}.Fields(true)) > 0:
			lines = append(lines, fmt.Sprintf("~ %s: its schema or description changes", key.Name))
		}
	}
	// Without the first character, which is the sign.
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[1:], b[1:]) })
	return lines
}

// versionsOf lists the versions that a CustomResourceDefinition serves.
func versionsOf(definition map[string]any) string {
	list, _, _ := unstructured.NestedSlice(definition, "spec", "versions")
	var names []string
	for _, v := range list {
		version, _ := v.(map[string]any)
		if name, _ := version["name"].(string); version["served"] == true {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// words formats a text for people: WHERE becomes where the values are, secrets are hidden, and
// paths on the stage become those that files will have.
func (u *upgrade) words(format string, args ...any) string {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "WHERE", u.configured.words)
	return u.hidden(u.stage.placed(text))
}

// hidden removes the secrets that are known so far from a text, unless they are to be shown.
func (u *upgrade) hidden(text string) string {
	if u.secrets {
		return text
	}
	return values.NewHider(u.configured.secrets).Text(text)
}

// showGone prints the values of people for which the old chart has a default, or a map around them,
// and the new one has not: they have no effect any more.
func (u *upgrade) showGone() {
	var lines []string
	for _, layer := range u.configured.layers(u.module) {
		section, _ := layer.Value.(map[string]any)
		visit(nil, section, func(path []string) {
			// A value that the old chart does not have either, such as one of its open maps, is not
			// reported.
			if known := knownPrefix(u.old.All, path); len(known) > 0 && len(knownPrefix(u.fresh.All, known)) < len(known) {
				lines = append(lines, fmt.Sprintf("%s in %s", values.Dotted(append([]string{u.module.Key}, path...)), layer.Source))
			}
		})
	}
	if len(lines) > 0 {
		fmt.Fprintln(u.out, "\nYour values that the chart no longer has:")
	}
	slices.Sort(lines)
	for _, line := range slices.Compact(lines) {
		fmt.Fprintln(u.out, "    "+line)
	}
}

// visit calls see with the path of each value that is no map, or an empty one. Each path is a slice
// of its own, which see may keep.
func visit(path []string, tree map[string]any, see func(path []string)) {
	for name, value := range tree {
		here := append(slices.Clone(path), name)
		if below, ok := value.(map[string]any); ok && len(below) > 0 {
			visit(here, below, see)
			continue
		}
		see(here)
	}
}

// knownPrefix is the longest beginning of a path that exists in a tree. It ends at a value that is
// no map.
func knownPrefix(tree map[string]any, path []string) []string {
	for i, name := range path {
		value, ok := tree[name]
		if !ok {
			return path[:i]
		}
		if tree, ok = value.(map[string]any); !ok {
			return path[:i+1]
		}
	}
	return path
}
