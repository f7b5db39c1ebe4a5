package hooks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

// longestShebang is the number of bytes of the first line of a script that the kernel reads.
const longestShebang = 256

// CheckInterpreter returns what is wrong with the first line of a script, and what to write
// instead: the kernel only reports "no such file or directory" or "exec format error". It returns
// nil for programs that are no scripts, and for files that it cannot read. root is the root
// directory of the script as in Options.Chroot; "" for none.
func CheckInterpreter(root, path string) error {
	// Without O_NONBLOCK the open of a named pipe would wait for a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	head, err := io.ReadAll(io.LimitReader(file, longestShebang))
	if err != nil || len(head) == 0 {
		return nil
	}
	line, _, ended := bytes.Cut(head, []byte("\n"))
	words := strings.Fields(strings.TrimPrefix(string(line), "#!"))
	switch {
	case !bytes.HasPrefix(head, []byte("#!")) && (!utf8.Valid(line) || bytes.ContainsRune(line, 0)):
		return nil
	case !bytes.HasPrefix(head, []byte("#!")):
		return errors.New("line 1: the script has no interpreter; begin it with a line such as #!/usr/bin/env bash")
	case ended && bytes.HasSuffix(line, []byte("\r")):
		return errors.New("line 1: it ends with a carriage return, as on Windows, which becomes part of the interpreter's name; save the file with Unix line endings, for example with sed -i 's/\\r$//'")
	case len(words) == 0:
		return errors.New("line 1: #! names no interpreter; write a line such as #!/usr/bin/env bash")
	}
	if _, err := os.Stat(filepath.Join(root, words[0])); err != nil {
		return fmt.Errorf("line 1: the interpreter %s does not exist here; install it, or correct the name", words[0])
	}
	return nil // env names the program that it does not find
}
