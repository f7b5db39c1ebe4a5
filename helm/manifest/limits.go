package manifest

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A manifest comes out of a release record, which whoever may write Secrets in the namespace can make, or out of a chart that
// repeats what people wrote into values. A text of some hundred bytes can stand for gigabytes.
const (
	// MaxSize bounds a manifest, and what a document is with all aliases written out, in bytes. The API server takes 3 MiB for
	// an object; the record of a release, packed, has 1 MiB.
	MaxSize = 16 << 20
	// MaxParts bounds the lines and elements of a manifest. Each takes some hundred bytes while it is parsed.
	MaxParts = 500_000
)

var (
	errTooLarge  = fmt.Errorf("the manifest is larger than %d MiB, with all aliases written out", MaxSize>>20)
	errTooMany   = fmt.Errorf("the manifest has more than %d lines and elements of lists and maps", MaxParts)
	errInCircles = errors.New("an anchor contains itself")

	// anchors and aliases are what may be one; few texts have both.
	anchors = regexp.MustCompile(`(?m)(?:^|[\s,\[{:])&[^\s,\[\]{}]`)
	aliases = regexp.MustCompile(`(?m)(?:^|[\s,\[{:])\*[^\s,\[\]{}]`)
)

// Check refuses a text that would take much more memory than a cluster has use for, before it is parsed. Parse and everything of Helm's that
// reads manifests can be given what it takes.
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
	if !strings.Contains(text, "&") || !strings.Contains(text, "*") {
		return nil
	}
	for document := range strings.SplitSeq(text, "\n---") {
		if !anchors.MatchString(document) || !aliases.MatchString(document) {
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

// expansion knows how large the nodes behind anchors are; those that are being measured have the size -1.
type expansion map[*yaml.Node]int

// size is how large a node is with all aliases written out, in bytes.
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
