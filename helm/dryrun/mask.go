package dryrun

import (
	"maps"
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
	b, a := hide(before, after, mask(before), mask(after))
	old, _ := b.(map[string]any)
	fresh, _ := a.(map[string]any)
	return old, fresh
}

// hide returns what may be shown of a value before and after; the last two are what the mask shows of them. It descends
// as long as both sides have the same structure.
func hide(b, a, shownB, shownA any) (any, any) {
	oldMap, ok1 := b.(map[string]any)
	newMap, ok2 := a.(map[string]any)
	if ok1 && ok2 {
		hiddenB, _ := shownB.(map[string]any)
		hiddenA, _ := shownA.(map[string]any)
		outB, outA := maps.Clone(hiddenB), maps.Clone(hiddenA)
		for key, value := range oldMap {
			if other, both := newMap[key]; both {
				outB[key], outA[key] = hide(value, other, hiddenB[key], hiddenA[key])
			}
		}
		return outB, outA
	}
	oldList, ok1 := b.([]any)
	newList, ok2 := a.([]any)
	isHiddenB, isHiddenA := !equalValues(b, shownB), !equalValues(a, shownA)
	switch {
	case !isHiddenB && !isHiddenA:
		return b, a
	case equalValues(b, a) && isHiddenA: // a mask decides by what is around a value, too
		return shownA, shownA
	case equalValues(b, a):
		return shownB, shownB
	case ok1 && ok2:
		hiddenB, _ := shownB.([]any)
		hiddenA, _ := shownA.([]any)
		outB, outA := hideElements(oldList, newList, hiddenB, hiddenA)
		return outB, outA
	}
	return hideTexts(b, a, shownB, shownA)
}

// hideElements compares lists by index, and those of different lengths as sets: there, all that is different is hidden
// on the side where the mask has found fewer secrets, because it has not recognised one.
func hideElements(b, a, shownB, shownA []any) (outB, outA []any) {
	outB, outA = append(outB, shownB...), append(outA, shownA...)
	if len(b) == len(a) {
		for i := range b {
			outB[i], outA[i] = hide(b[i], a[i], shownB[i], shownA[i])
		}
		return outB, outA
	}
	changedB, secretsB := changed(b, a, shownB)
	changedA, secretsA := changed(a, b, shownA)
	for _, i := range changedB {
		if secretsB < secretsA {
			outB[i] = masked
		}
	}
	for _, i := range changedA {
		if secretsA < secretsB {
			outA[i] = masked
		}
	}
	return outB, outA
}

// changed are the elements that the other side does not have, and how many of them the mask has changed.
func changed(list, other, shown []any) (indexes []int, secrets int) {
	for i, element := range list {
		found := false
		for _, o := range other {
			found = found || equalValues(element, o)
		}
		if found {
			continue
		}
		indexes = append(indexes, i)
		if !equalValues(element, shown[i]) {
			secrets++
		}
	}
	return indexes, secrets
}

// hideTexts hides two different values of which at least one is a secret. Texts are compared line by line, because they
// may be configuration files with a secret in one line. Two equal results get a mark, or the difference would be lost.
func hideTexts(b, a, shownB, shownA any) (any, any) {
	lines := func(value any) (all []any) {
		text, _ := value.(string)
		for line := range strings.SplitSeq(text, "\n") {
			all = append(all, line)
		}
		return all
	}
	oldLines, newLines, hiddenB, hiddenA := lines(b), lines(a), lines(shownB), lines(shownA)
	outB, outA := any(masked), any(masked)
	if len(oldLines) > 1 && len(newLines) > 1 && len(oldLines) == len(hiddenB) && len(newLines) == len(hiddenA) {
		x, y := hideElements(oldLines, newLines, hiddenB, hiddenA)
		outB, outA = joined(x), joined(y)
	}
	if b == nil {
		outB = nil
	}
	if a == nil {
		outA = nil
	}
	if text, ok := outA.(string); ok && equalValues(outB, outA) {
		outA = text + changedMark
	}
	return outB, outA
}

func joined(lines []any) string {
	all := make([]string, len(lines))
	for i, line := range lines {
		all[i], _ = line.(string)
	}
	return strings.Join(all, "\n")
}

// changedMark marks a hidden value that differs.
const changedMark = " (changed)"
