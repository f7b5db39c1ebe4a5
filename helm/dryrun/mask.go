package dryrun

import "maps"

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
// as long as both sides have the same structure. Of anything else that differs, nothing is shown if the mask has found
// a secret on one side.
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
	oldList, _ := b.([]any)
	newList, _ := a.([]any)
	hiddenB, _ := shownB.([]any)
	hiddenA, _ := shownA.([]any)
	if n := len(oldList); n > 0 && n == len(newList) && n == len(hiddenB) && n == len(hiddenA) {
		outB, outA := make([]any, n), make([]any, n)
		for i := range n {
			outB[i], outA[i] = hide(oldList[i], newList[i], hiddenB[i], hiddenA[i])
		}
		return outB, outA
	}
	isHiddenA := !equalValues(a, shownA)
	switch {
	case !isHiddenA && equalValues(b, shownB):
		return b, a
	case equalValues(b, a) && isHiddenA: // a mask decides by what is around a value, too
		return shownA, shownA
	case equalValues(b, a):
		return shownB, shownB
	}
	return hidden(b, masked), hidden(a, masked+changedMark)
}

// hidden is the mark in the place of a value; that there is none is shown.
func hidden(value any, mark string) any {
	if value == nil {
		return nil
	}
	return mark
}

// changedMark marks a hidden value that differs.
const changedMark = " (changed)"
