package manifest

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A manifest comes from a release record, which every client with write access to Secrets in the
// namespace can forge, or from a chart that repeats texts that people wrote into values. With aliases of aliases, a
// text of some hundred bytes can expand to gigabytes (D39).
const (
	// MaxSize bounds a manifest, and what a document is with all aliases written out, in bytes. The
	// API server takes 3 MiB for an object; the record of a release, packed, has 1 MiB.
	MaxSize = 16 << 20
	// MaxParts bounds the lines and elements of a manifest. Each takes some hundred bytes while it
	// is parsed.
	MaxParts = 500_000
)

var (
	errTooLarge  = fmt.Errorf("the manifest is larger than %d MiB, with all aliases written out", MaxSize>>20)
	errTooMany   = fmt.Errorf("the manifest has more than %d lines and elements of lists and maps", MaxParts)
	errInCircles = errors.New("an anchor contains itself")
)

// Check refuses a text that would take much more memory than any object of a cluster, before it is
// parsed. A text that it accepts is safe for Parse, and for all code of Helm that reads manifests. A text that
// is not YAML passes: the parser reports the mistake. Most texts have no alias, and are only scanned.
func Check(text string) error {
	if len(text) > MaxSize {
		return errTooLarge
	}
	parts := 0
	for _, separator := range []string{"\n", ",", "[", "{"} {
		parts += strings.Count(text, separator)
	}
	if parts > MaxParts {
		return errTooMany
	}
	for document := range strings.SplitSeq(text, "\n---") {
		if !strings.Contains(document, "&") || !strings.Contains(document, "*") {
			continue
		}
		var root yaml.Node
		if yaml.Unmarshal([]byte(document), &root) != nil {
			continue // the parser explains it
		}
		if _, err := (expansion{}).size(&root); err != nil {
			return err
		}
	}
	return nil
}

// expansion has the sizes of nodes with an anchor, so that each is measured once however many
// aliases refer to it; nodes that are being measured have the size -1.
type expansion map[*yaml.Node]int

// size is how large a node is with all aliases written out, in bytes. It ends as soon as a sum is
// too large, so the work is bounded as well.
func (e expansion) size(n *yaml.Node) (int, error) {
	if n.Kind == yaml.AliasNode {
		return e.size(n.Alias)
	}
	switch known := e[n]; {
	case known < 0:
		return 0, errInCircles
	case known > 0:
		return known, nil
	}
	if n.Anchor != "" {
		e[n] = -1
	}
	sum := 1 + len(n.Value)
	for _, child := range n.Content {
		size, err := e.size(child)
		if err != nil {
			return 0, err
		}
		if sum += size; sum > MaxSize {
			return 0, errTooLarge
		}
	}
	if n.Anchor != "" {
		e[n] = sum
	}
	return sum, nil
}
