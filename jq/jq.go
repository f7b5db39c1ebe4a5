package jq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/itchyny/gojq"
)

// maxExpression bounds the text of a program, in bytes: the library parses and compiles nested ones recursively.
const maxExpression = 64 << 10

// olderFunctions defines those functions of the jq program that the library leaves out and that
// existing filters use. Keys are sorted here in any case; output to stderr is dropped. Bessel functions of an order of a
// billion take minutes, so there are none.
const olderFunctions = `def keys_unsorted: keys; def leaf_paths: paths(scalars); def recurse_down: recurse;
def debug: .; def stderr: .; def jn(n; x): error("jn is not supported"); def yn(n; x): error("yn is not supported"); `

// Program is a compiled jq program. It is safe for concurrent use; one run of it follows the other.
type Program struct {
	query  *gojq.Query
	loader modules
	code   *gojq.Code
	run    sync.Mutex
	made   int // by the guards in this run

	regexes map[string]*regex // that the library keeps, too
}

// Compile compiles a program. Modules that it imports are searched in the directories of library; without any,
// imports fail. The functions that are added come first, so one of the same name in the program takes their place.
func Compile(expression string, library ...string) (*Program, error) {
	if len(expression) > maxExpression {
		return nil, fmt.Errorf("it has more than %d KiB", maxExpression>>10)
	}
	query, err := gojq.Parse(expression)
	if err != nil {
		return nil, err
	}
	defs, err := added()
	if err != nil {
		return nil, err
	}
	guard(query, defs)
	p := &Program{query: query, loader: modules{gojq.NewModuleLoader(library)}}
	return p, p.compile()
}

// compile compiles the program, with no regular expressions yet.
func (p *Program) compile() (err error) {
	p.code, err = gojq.Compile(p.query, gojq.WithModuleLoader(p.loader), gojq.WithFunction(within, 1, 3, p.within))
	p.regexes = map[string]*regex{}
	return err
}

// Results runs the program for an input, which it does not change. An error is the last result. "halt" ends a program,
// and is no error.
func (p *Program) Results(ctx context.Context, input any) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		p.run.Lock()
		defer p.run.Unlock()
		p.made = 0
		if len(p.regexes) > maxKept {
			if err := p.compile(); err != nil {
				yield(nil, err)
				return
			}
		}
		for results := p.code.RunWithContext(ctx, input); ; {
			result, more := results.Next()
			err, failed := result.(error)
			if halt, ok := errors.AsType[*gojq.HaltError](err); !more || ok && halt.Value() == nil {
				return
			}
			if failed {
				yield(nil, err)
				return
			}
			if !yield(result, nil) {
				return
			}
		}
	}
}

// Marshal writes a result as JSON. It refuses what is too large or nested too deep: whoever reads it later would fail.
func Marshal(result any) (json.RawMessage, error) {
	if size(result, maxDepth, maxValue) > maxValue {
		return nil, errTooLarge
	}
	return gojq.Marshal(result)
}
