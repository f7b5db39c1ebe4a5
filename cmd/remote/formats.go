package remote

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/printers"

	"addon-operator/cmd/cli"
)

// Formats as kubectl has them. A template follows pathFormat.
const (
	nameFormat = "name"
	pathFormat = "jsonpath="
)

// checkPath refuses a template that cannot be parsed, before the operator is asked.
func checkPath(template string) error {
	if template == "" {
		return cli.Usagef("output: jsonpath= needs a template, such as jsonpath='{.modules[*].name}'")
	}
	if _, err := printers.NewJSONPathPrinter(template); err != nil {
		return cli.Usagef("output: the template %q cannot be parsed: %w", template, err)
	}
	return nil
}

// printPath prints what a template selects from an answer, with the printer of kubectl, so that
// templates work alike. Missing keys print nothing, because an answer leaves out what is empty. An
// answer that is a list is found under items.
func printPath(w io.Writer, template string, body []byte) error {
	printer, err := printers.NewJSONPathPrinter(template)
	if err != nil {
		return err
	}
	printer.AllowMissingKeys(true)
	var answer any
	if err := json.Unmarshal(body, &answer); err != nil { // whole numbers stay whole
		return fmt.Errorf("the operator's answer: %w", err)
	}
	object, ok := answer.(map[string]any)
	if !ok { // the library prints objects only
		object = map[string]any{"items": answer}
	}
	// A template that fits no answer, such as an index into an object, fails here only.
	if err := printer.PrintObj(&unstructured.Unstructured{Object: object}, printable{Writer: w}); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w)
	return err
}

// namesIn makes the function for -o name: it finds one field of each element of some lists of an
// answer.
func namesIn(field string, lists ...string) func(body []byte) ([]string, error) {
	return func(body []byte) (names []string, err error) {
		var answer map[string]any
		if err := decoded(body, &answer); err != nil {
			return nil, err
		}
		for _, list := range lists {
			elements, _ := answer[list].([]any)
			for _, e := range elements {
				element, _ := e.(map[string]any)
				if name, ok := element[field]; ok {
					names = append(names, fmt.Sprint(name))
				}
			}
		}
		return names, nil
	}
}
