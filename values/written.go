package values

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxWritten bounds what is remembered of values that hooks wrote, in bytes of [Written.Text]; what is written when it is full
// is not remembered.
const maxWritten = 32 << 10

// Written says which hook wrote which value of the ConfigMap or the Secret: names of hooks by path, a JSON pointer that begins with the key
// of the section or is that of a flag. It holds no values. It is immutable.
type Written map[string]string

// Wrote notes the values that a hook has added or changed in a section, as [Document.Stored] gives it, and forgets those that it removed. A
// list counts as one value. before and after are nil for a section that is not there.
func (w Written) Wrote(hook, key string, before, after any) Written {
	next := maps.Clone(w)
	if next == nil {
		next = Written{}
	}
	section := pointer{key}
	for path := range w {
		if at := writtenAt(path); section.contains(at) {
			if _, has := lookup(after, at[1:]); !has || after == nil {
				delete(next, path)
			}
		}
	}
	size := next.size()
	eachLeaf(after, nil, func(at pointer, value any) {
		if was, had := lookup(before, at); after == nil || had && reflect.DeepEqual(was, value) {
			return
		}
		path := append(section, at...).String()
		if _, known := next[path]; !known {
			if size+entrySize(path, hook) > maxWritten {
				return
			}
			size += entrySize(path, hook)
		}
		next[path] = hook
	})
	return next
}

// writtenAt takes a path apart that was checked when it was read.
func writtenAt(path string) pointer {
	at, _ := splitPointer(path)
	return at
}

// Lost is a value of the ConfigMap or the Secret that a hook wrote and a person took away.
type Lost struct {
	// Path as users write it: someModule.a.b.
	Path, Hook string
}

// Compare finds the values that are gone from both, sorted by path. The rest is what still stands there as a hook
// wrote it: a value that a person has changed is the person's. Where before is not known, it is the zero value.
func (w Written) Compare(before, after Document) (lost []Lost, rest Written) {
	was, is := before.tree(), after.tree()
	rest = Written{}
	for _, path := range slices.Sorted(maps.Keys(w)) {
		at := writtenAt(path)
		then, had := lookup(was, at)
		now, has := lookup(is, at)
		switch {
		case !has:
			lost = append(lost, Lost{Path: dotted(nil, at), Hook: w[path]})
		case !had || reflect.DeepEqual(then, now):
			rest[path] = w[path]
		}
	}
	return lost, rest
}

// tree is the document as a map of sections, each with what the Secret has above it, and flags.
func (d Document) tree() map[string]any {
	tree := map[string]any{}
	for key := range d.Sections {
		tree[key] = d.Stored(key)
	}
	for key := range d.Secrets {
		tree[key] = d.Stored(key)
	}
	for key, value := range d.Flags {
		tree[key] = value
	}
	return tree
}

// Text is the form for an annotation: a JSON object of paths by hook; empty for nothing.
func (w Written) Text() string {
	if len(w) == 0 {
		return ""
	}
	byHook := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(w)) {
		byHook[w[path]] = append(byHook[w[path]], path)
	}
	text, _ := json.Marshal(byHook) // texts only
	return string(text)
}

// ParseWritten reads what Text has written. An error leaves nothing to remember.
func ParseWritten(text string) (Written, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > 2*maxWritten { // its quotes and escapes count, too
		return nil, fmt.Errorf("it has %d bytes, at most %d are written", len(text), 2*maxWritten)
	}
	byHook := map[string][]string{}
	if err := json.Unmarshal([]byte(text), &byHook); err != nil {
		return nil, err
	}
	w := Written{}
	for hook, paths := range byHook {
		for _, path := range paths {
			if _, err := splitPointer(path); err != nil || !strings.HasPrefix(path, "/") {
				return nil, fmt.Errorf("%q is no path", path)
			}
			w[path] = hook
		}
	}
	return w, nil
}

func (w Written) size() (size int) {
	for path, hook := range w {
		size += entrySize(path, hook)
	}
	return size
}

// entrySize is at least what an entry takes in the text, but for escapes.
func entrySize(path, hook string) int { return len(path) + len(hook) + len(`"":[""],`) }
