package dryrun

import (
	"slices"
	"strings"
)

// HideBoth masks differing values on both sides, so that neither the old nor the new secret is shown,
// but the fact that they differ is. A mask keeps the structure of an object; nil is an
// object that does not exist.
//
// A value is a secret as soon as one side looks like one: a password that was replaced by a
// harmless text must not be shown on the left. Neither before nor after is changed; the results may
// share parts with what mask returns.
func HideBoth(before, after map[string]any, mask func(object map[string]any) map[string]any) (map[string]any, map[string]any) {
	if before == nil || after == nil {
		if before != nil {
			before = mask(before)
		}
		if after != nil {
			after = mask(after)
		}
		return before, after
	}
	b, a := pair{before, mask(before)}.with(pair{after, mask(after)})
	old, _ := b.(map[string]any)
	fresh, _ := a.(map[string]any)
	return old, fresh
}

// pair is a raw value, and what the mask shows of it. They have the same structure.
type pair struct{ raw, shown any }

// hidden reports whether the mask has changed the value, or a part of it.
func (p pair) hidden() bool { return !equalValues(p.raw, p.shown) }

// with returns what may be shown of the value before and of the one after. It descends as long as
// both sides have the same structure, and compares where they differ. Equal values are shown as
// equal, and masked as soon as one side is: a mask decides by what is around a value, too, which
// may have changed.
func (p pair) with(after pair) (shownBefore, shownAfter any) {
	b, ok1 := p.raw.(map[string]any)
	a, ok2 := after.raw.(map[string]any)
	if ok1 && ok2 {
		return p.maps(after, b, a)
	}
	bl, ok1 := p.raw.([]any)
	al, ok2 := after.raw.([]any)
	if ok1 && ok2 {
		return p.lists(after, bl, al)
	}
	if equalValues(p.raw, after.raw) {
		if after.hidden() {
			return after.shown, after.shown
		}
		return p.shown, p.shown
	}
	if !p.hidden() && !after.hidden() {
		return p.raw, after.raw
	}
	old, ok1 := p.raw.(string)
	fresh, ok2 := after.raw.(string)
	if ok1 && ok2 && strings.Contains(old+fresh, "\n") {
		return p.texts(after, old, fresh)
	}
	return p.scalars(after)
}

// scalars returns what may be shown of two values of which at least one is hidden. Two equal masks
// get a mark, or the difference would be lost.
func (p pair) scalars(after pair) (shownBefore, shownAfter any) {
	shownBefore, shownAfter = p.shown, after.shown
	if !p.hidden() && p.raw != nil {
		shownBefore = masked
	}
	if !after.hidden() && after.raw != nil {
		shownAfter = masked
	}
	if text, ok := shownAfter.(string); ok && equalValues(shownBefore, shownAfter) {
		shownAfter = text + changedMark
	}
	return shownBefore, shownAfter
}

// changedMark marks a hidden value that differs.
const changedMark = " (changed)"

// maps compares fields by name; those of one side alone are shown as masked.
func (p pair) maps(after pair, b, a map[string]any) (any, any) {
	shownB, _ := p.shown.(map[string]any)
	shownA, _ := after.shown.(map[string]any)
	outB, outA := make(map[string]any, len(b)), make(map[string]any, len(a))
	for key, value := range b {
		outB[key] = shownB[key]
		if other, both := a[key]; both {
			outB[key], outA[key] = pair{value, shownB[key]}.with(pair{other, shownA[key]})
		}
	}
	for key := range a {
		if _, both := b[key]; !both {
			outA[key] = shownA[key]
		}
	}
	return outB, outA
}

// lists compares elements by index or, if the lengths differ, by their field name, as those of
// containers and variables. Texts are treated like the lines of one text. All other elements
// without a partner are shown as masked.
func (p pair) lists(after pair, b, a []any) (any, any) {
	shownB, _ := p.shown.([]any)
	shownA, _ := after.shown.([]any)
	outB, outA := slices.Clone(shownB), slices.Clone(shownA)
	if len(b) == len(a) {
		for i := range b {
			outB[i], outA[i] = pair{b[i], shownB[i]}.with(pair{a[i], shownA[i]})
		}
		return outB, outA
	}
	for i := range b {
		for k := range a {
			if name := nameOf(b[i]); name != "" && name == nameOf(a[k]) {
				outB[i], outA[k] = pair{b[i], shownB[i]}.with(pair{a[k], shownA[k]})
			}
		}
	}
	linesB, ok1 := texts(b)
	linesA, ok2 := texts(a)
	if ok1 && ok2 {
		hiddenB, _ := texts(shownB)
		hiddenA, _ := texts(shownA)
		hiddenB, hiddenA = hideLines(linesB, linesA, hiddenB, hiddenA)
		for i := range outB {
			outB[i] = hiddenB[i]
		}
		for i := range outA {
			outA[i] = hiddenA[i]
		}
	}
	return outB, outA
}

// nameOf is the field name of an element; empty for one that has none.
func nameOf(element any) string {
	m, _ := element.(map[string]any)
	name, _ := m["name"].(string)
	return name
}

// texts returns a list of texts as such; false if another type is in it.
func texts(list []any) ([]string, bool) {
	out := make([]string, len(list))
	for i, element := range list {
		text, ok := element.(string)
		if !ok {
			return nil, false
		}
		out[i] = text
	}
	return out, true
}

// texts compares texts line by line, because they may be configuration files with a secret in one
// line. If a mask has changed the number of lines, they cannot be matched, so all is hidden.
func (p pair) texts(after pair, old, fresh string) (any, any) {
	shownB, _ := p.shown.(string)
	shownA, _ := after.shown.(string)
	if strings.Count(shownB, "\n") != strings.Count(old, "\n") || strings.Count(shownA, "\n") != strings.Count(fresh, "\n") {
		return masked, masked + changedMark // as a whole
	}
	split := func(text string) []string { return strings.Split(text, "\n") }
	b, a := hideLines(split(old), split(fresh), split(shownB), split(shownA))
	outB, outA := strings.Join(b, "\n"), strings.Join(a, "\n")
	if outB == outA {
		outA += "\n" + masked + changedMark
	}
	return outB, outA
}

// hideLines hides the lines of one side that may correspond to a secret of the other. If a mask
// finds fewer secrets among the lines that differ than on the other side, it has not recognised the
// old (or the new) one, so all differing lines of that side are hidden.
func hideLines(b, a, shownB, shownA []string) ([]string, []string) {
	secretsB, secretsA := changedSecrets(b, a, shownB), changedSecrets(a, b, shownA)
	hide := func(lines, other, shown []string) []string {
		out := slices.Clone(shown)
		for i, line := range lines {
			if shown[i] == line && !slices.Contains(other, line) {
				out[i] = masked
			}
		}
		return out
	}
	switch {
	case secretsB < secretsA:
		return hide(b, a, shownB), shownA
	case secretsB > secretsA:
		return shownB, hide(a, b, shownA)
	}
	return shownB, shownA
}

// changedSecrets counts the lines that the mask has changed and that the other side does not have.
func changedSecrets(lines, other, shown []string) int {
	count := 0
	for i, line := range lines {
		if shown[i] != line && !slices.Contains(other, line) {
			count++
		}
	}
	return count
}
