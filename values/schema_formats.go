package values

import (
	"encoding/json"
	"math"
	"net/netip"
	"regexp"
	"regexp/syntax"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// formats returns what OpenAPI and Kubernetes define beyond JSON Schema, and replaces formats of
// the library that cost too much. Every check accepts values of other types, as JSON Schema
// requires.
func formats() map[string]func(any) bool {
	return map[string]func(any) bool{
		"int32":    func(v any) bool { return integerWithin(v, math.MinInt32, math.MaxInt32) },
		"int64":    func(v any) bool { return integerWithin(v, math.MinInt64, math.MaxInt64) },
		"duration": ofTexts(isDuration),
		"cidr": ofTexts(func(text string) bool {
			_, err := netip.ParsePrefix(text)
			return err == nil
		}),
		// Not compiled, only parsed: ten bytes of a pattern can describe a program of a megabyte.
		"regex": ofTexts(func(text string) bool {
			_, err := syntax.Parse(text, syntax.Perl)
			return err == nil
		}),
	}
}

func ofTexts(fits func(string) bool) func(any) bool {
	return func(v any) bool {
		text, ok := v.(string)
		return !ok || fits(text)
	}
}

func integerWithin(v any, low, high int64) bool {
	switch n := v.(type) {
	case int64:
		return low <= n && n <= high
	case json.Number:
		return false // a json.Number is an integer beyond int64
	}
	return true
}

// isDuration accepts 1h30m, as Kubernetes has it, PT1H30M, as JSON Schema has it, and days, weeks and words, such
// as 30d and "2 weeks", as go-openapi has it.
func isDuration(text string) bool {
	if _, err := time.ParseDuration(text); err == nil {
		return true
	}
	const units = `ns|nanos?|nanoseconds?|[uµ]s|micros?|microseconds?|ms|millis?|milliseconds?|` +
		`s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|wks?|weeks?`
	sum := regexp.MustCompile(`(?i)^-?(\d+(\.\d+)?\s*(` + units + `)\s*)+$`)
	return sum.MatchString(text) || jsonschema.Formats["duration"](text)
}
