package jq

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
)

func object() any {
	return map[string]any{
		"n": 3, "text": "abc", "list": []any{1, 2, map[string]any{"a": nil}}, "map": map[string]any{"x": 1, "y": map[string]any{"z": "q"}},
		"float": 1.5, "rows": []any{[]any{1, 2}, []any{3}}, "big": "123456789012345678901234567890",
	}
}

// all runs a program to its end.
func all(t *testing.T, expression string, library ...string) (texts []string) {
	t.Helper()
	p, err := Compile(expression, library...)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for result, err := range p.Results(ctx, object()) {
		text, wrong := Marshal(result)
		if err = errors.Join(err, wrong); err != nil {
			return append(texts, err.Error())
		}
		texts = append(texts, string(text))
	}
	return texts
}

// Guarded operators and functions mean what those of the library mean.
func TestGuardsChangeNothing(t *testing.T) {
	for _, expression := range []string{
		`.n * 2, 2 * .n, .text * 2, .text * 0, .text * -1, .map * {y: {w: 1}}, .float * 3`, `(1, 2) * (3, 4), (1, 2) + (3, 4)`, `.n + 1, .text + "x", .list + [3], .map + {c: 1}, null + 1`,
		`.list * 2`, `.text + 1`, `.new = 1`, `.list[1] = 5 | .list`, `.list[5] = 5 | .list`, `.list[-1] = 0 | .list`, `.list[-9] = 0`, `.a.b.c |= 7`, `.list[] |= type`, `.list[1:] = [9] | .list`,
		`.n = (1, 2) | .n`, `.n |= (., .) | .n`, `(.n, .text) += 1`, `.n += (1, 2) | .n`, `.n *= 2 | .n`, `.n -= 1 | .n`, `.n /= 2 | .n`, `.n %= 2 | .n`, `.none //= 4 | .none`, `.list |= map(select(. != 2))`,
		`.list[0] += .n | .list`, `reduce .list[] as $x (0; . + ($x | length))`, `reduce range(5) as $i ([]; .[$i] = $i * $i)`, `[foreach range(4) as $i (1; . * 2)]`, `def double: . + .; .n | double`,
		`def f(g): g + 1; f(.n), f(.n * 2)`, `def add: "mine"; .list | add`, `def f(add): add; f(1)`, `setpath(["a", "b"]; 1, 2) | .a`, `setpath("x"; 1)`, `pick(.map.y.z), pick(.list[1])`,
		`fromstream(tostream) == .`, `.rows | transpose`, `.rows | flatten, flatten(1), add, (.[0] | add), add(.[][])`, `.map | to_entries | map(.key) | join("-")`, `[.text, .n] | join("/", "+")`,
		`"\(.n) and \(.map) @ \(.text)"`, `@base64 "x\(.text)", (.rows[] | @csv, @json, @text, @sh)`, `.map | tojson, tostring | ., fromjson`, `[97, 98] | implode`, `{"k\(.n)": .n + 1, (.text + "x"): 2}`,
		`.big | tonumber | . * ., . + 1`, `.list[.n - 2 + 1]`, `if .n + 1 > 3 then .n else .text end |= "y"`, `try (.text * {}) catch .`, `.list as [$a, $b] | $a + $b`, `. as {n: $n, ("te" + "xt"): $t} | $t * $n`,
		`path(.list[1 + 1])`, `[paths], [leaf_paths]`, `with_entries(.value |= type)`, `walk(if type == "number" then . + 1 else . end)`, `map_values(length?)`, `del(.list[0, 1]).list`, `limit(3; repeat(1))`,
		`.text | gsub("b"; "\(.)!")`, `[.list[] | numbers] | (add / length), -(.[0] + 1)`, `label $out | 1, break $out + 1`, `first(range(10) + 5)`, `"a,b" | split(",") + ["c"]`, `@json`, `$ENV + {}`, `halt`,
		`"x" * nan`, `.n * infinite`, `[.[]?] | length`,
	} {
		var want []string
		query, err := gojq.Parse(olderFunctions + expression)
		if err != nil {
			t.Fatal(err)
		}
		for results := query.RunWithContext(t.Context(), object()); ; {
			result, more := results.Next()
			if !more {
				break
			}
			if err, failed := result.(error); failed {
				if halt, ok := errors.AsType[*gojq.HaltError](err); !ok || halt.Value() != nil {
					want = append(want, err.Error())
				}
				break
			}
			text, err := gojq.Marshal(result)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, string(text))
		}
		if got := all(t, expression); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n got %s\nwant %s", expression, got, want)
		}
	}
}

// No step makes much of little: the time limit counts between steps only. C37.
func TestStepsAreBounded(t *testing.T) {
	library := t.TempDir()
	if err := os.WriteFile(filepath.Join(library, "bomb.jq"), []byte(`def twice: reduce range(40) as $i ("xxxxxxxx"; . + .);`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, expression := range []string{
		`[] | .[536870911] = 1`, `[] | setpath([536870911]; 1)`, `[] | .[300000000] |= 1`, `null | pick(.[536870911])`, `fromstream([[536870911], 1], [[536870911]])`, `.list[100000000].x += 1`,
		`[] | .[range(1000) | . * 500] = 1`, `"x" * 1000000000`, `.text *= 1e9`, `.n as $n | "x" * (10000000 * $n)`, `[range(1e9) | "x" * 1000000]`,
		`reduce range(40) as $i ("x"; . + .)`, `reduce range(40) as $i ("x"; . += .)`, `reduce range(40) as $i ([1]; . + .)`, `reduce range(40) as $i ("x"; "\(.)\(.)")`, `reduce range(40) as $i ("x"; @text "\(.)\(.)")`,
		`reduce range(60) as $i (1; [., .])`, `reduce range(60) as $i (1; [., .]) | tojson`, `reduce range(60) as $i (1; [., .]) | @json`, `reduce range(60) as $i (1; [., .]) | flatten`, `reduce range(60) as $i (1; [., .]) | "\(.)"`,
		`reduce range(200000) as $i (1; {a: .})`, `reduce range(200000) as $i (1; [.])`, `[range(100)] | map([range(1e4)]) | add | add(., ., .) | [., ., ., ., ., ., .] | add`,
		`("x" * 1000000) as $s | [range(100000)] | join($s)`, `("x" * 1000000) as $s | [range(100000) | $s] | add`, `[[range(500000)], (range(500000) | [])] | transpose`,
		`reduce range(60) as $i (.big | tonumber; . * .)`, `import "bomb" as bomb; bomb::twice`,
	} {
		peak := heapWhile(func() {
			got := all(t, expression, library)
			if last := got[len(got)-1]; !strings.Contains(last, "MiB") {
				t.Errorf("%s: %.80s", expression, last)
			}
		})
		if peak > 700<<20 {
			t.Errorf("%s: the heap grows by %d MiB", expression, peak>>20)
		}
	}
}

// heapWhile is how much is allocated meanwhile, whether it is kept or not.
func heapWhile(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestLongExpression(t *testing.T) {
	if _, err := Compile(strings.Repeat("(", 1<<20)); err == nil || !strings.Contains(err.Error(), "64 KiB") {
		t.Errorf("error %v", err)
	}
	if _, err := Compile(strings.Repeat("(", 30000) + "." + strings.Repeat(")", 30000)); err != nil {
		t.Log(err) // it may be refused, but ends
	}
}
