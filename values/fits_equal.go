package values

import (
	"encoding/json"
	"hash/maphash"
	"strconv"
	"strings"
)

// same reports whether two values are equal in the sense of enum, const and uniqueItems: numbers by
// their value, regardless of how they are written and of their Go type, maps regardless of their
// order. Its cost is counted per element; an exhausted checker still gets an answer, which its
// caller discards.
func (c *checker) same(a, b any) bool {
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		c.spend(len(a))
		for i := range a {
			if !c.same(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		c.spend(len(a))
		for key := range a {
			if other, ok := b[key]; !ok || !c.same(a[key], other) {
				return false
			}
		}
		return true
	case int64, float64, json.Number:
		return sameNumber(a, b)
	}
	switch b.(type) {
	case []any, map[string]any: // == would panic
		return false
	}
	return a == b
}

// unique reports whether no two elements of a list are the same, in linear time: a list of 4 MiB
// may have a hundred thousand elements.
func (c *checker) unique(list []any) bool {
	if len(list) < 2 {
		return true
	}
	seen := make(map[uint64]int, len(list)) // hash → position
	var h maphash.Hash
	for i, element := range list {
		h.Reset()
		c.hash(&h, element)
		// Different values may have the same hash: then the next free number is used. The seed is
		// random, so values cannot be chosen to collide.
		for sum := h.Sum64(); ; sum++ {
			other, known := seen[sum]
			if !known {
				seen[sum] = i
				break
			}
			if c.same(list[other], element) {
				return false
			}
		}
	}
	return true
}

// hash writes a value so that values that are not the same give different bytes, with kinds and
// lengths, and values that are the same give equal ones. A map is the sum of the hashes of its
// entries, which does not depend on their order.
func (c *checker) hash(h *maphash.Hash, value any) {
	c.spend(1)
	switch v := value.(type) {
	case nil:
		h.WriteByte('0')
	case bool:
		h.WriteString(strconv.FormatBool(v))
	case string:
		writeText(h, 's', v)
	case int64, float64, json.Number:
		d, _ := decimalOf(v)
		writeText(h, 'n', d.digits)
		h.WriteString(strconv.FormatBool(d.negative) + strconv.Itoa(d.exponent) + ";")
	case []any:
		h.WriteString("l" + strconv.Itoa(len(v)) + ":")
		for _, child := range v {
			c.hash(h, child)
		}
	case map[string]any:
		h.WriteString("m" + strconv.Itoa(len(v)) + ":")
		var sum uint64
		for key, child := range v {
			var entry maphash.Hash
			entry.SetSeed(h.Seed())
			writeText(&entry, 'k', key)
			c.hash(&entry, child)
			sum += entry.Sum64()
		}
		h.WriteString(strconv.FormatUint(sum, 10))
	}
}

// writeText writes a text with its length, so that ["ab", "c"] and ["a", "bc"] differ.
func writeText(h *maphash.Hash, kind byte, text string) {
	h.WriteByte(kind)
	h.WriteString(strconv.Itoa(len(text)) + ":")
	h.WriteString(text)
}

// decimal is a number in a form that is unique to its value: 0.digits times ten to the exponent.
// Zero has no digits and is never negative.
type decimal struct {
	negative bool
	digits   string // without zeros at both ends
	exponent int
}

// sameNumber compares numbers as they are written: 0.1 is a tenth. Two integers, the usual case,
// are compared without texts.
func sameNumber(a, b any) bool {
	if a, ok := a.(int64); ok {
		if b, ok := b.(int64); ok {
			return a == b
		}
	}
	one, aOK := decimalOf(a)
	other, bOK := decimalOf(b)
	return aOK && bOK && one == other
}

func decimalOf(value any) (decimal, bool) {
	switch v := value.(type) {
	case int64:
		return parseDecimal(strconv.FormatInt(v, 10)), true
	case float64:
		return parseDecimal(strconv.FormatFloat(v, 'e', -1, 64)), true
	case json.Number:
		return parseDecimal(string(v)), true
	}
	return decimal{}, false
}

// parseDecimal reads the text of a JSON number.
func parseDecimal(text string) decimal {
	var d decimal
	text, d.negative = strings.CutPrefix(text, "-")
	mantissa := text
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		d.exponent, _ = strconv.Atoi(text[i+1:])
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	d.exponent += len(digits) - len(fraction)
	d.digits = strings.TrimRight(digits, "0")
	if d.digits == "" {
		return decimal{}
	}
	return d
}
