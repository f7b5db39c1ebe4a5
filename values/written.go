package values

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxWritten bounds what is remembered of values that hooks wrote, in bytes of [Written.Text]
// (D24). Values that do not fit are not remembered: their removal causes no warning.
const maxWritten = 32 << 10

// Written records which hook wrote which value of the ConfigMap or the Secret: names of hooks by
// path, a JSON pointer that begins with the key of the section or is that of a flag (D24). It
// contains no values, because it is kept in an annotation of the ConfigMap. It is immutable.
type Written map[string]string

// Wrote records the values that a hook has added or changed in a section, as [Document.Stored]
// returns it, and removes those that no longer exist. A list counts as one value. before and after
// are nil for a section that does not exist.
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

// writtenAt parses a path that was checked when it was read.
func writtenAt(path string) pointer {
	at, _ := splitPointer(path)
	return at
}

// Lost is a value of the ConfigMap or the Secret that a hook wrote and a person removed.
type Lost struct {
	// Path as users write it: someModule.a.b.
	Path, Hook string
}

// Compare returns the values that are in neither document any more, sorted by path. rest is what
// still exists as a hook wrote it: a value that a person has changed belongs to the person. When
// the state before is unknown, before is the zero value, and everything that still exists stays in
// rest.
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

// tree returns the document as a map of sections, each merged with that of the Secret, and of
// flags.
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

// Text returns the form for an annotation: a JSON object with the paths of each hook; "" for
// nothing.
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

// ParseWritten reads what Text has written. After an error the caller continues with nothing:
// people may edit annotations.
func ParseWritten(text string) (Written, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > 2*maxWritten { // its quotes and escapes count, too
		return nil, fmt.Errorf("it has %d bytes, the limit is %d", len(text), 2*maxWritten)
	}
	byHook := map[string][]string{}
	if err := json.Unmarshal([]byte(text), &byHook); err != nil {
		return nil, err
	}
	w := Written{}
	for hook, paths := range byHook {
		for _, path := range paths {
			if _, err := splitPointer(path); err != nil || !strings.HasPrefix(path, "/") {
				return nil, fmt.Errorf("%q is not a path", path)
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
