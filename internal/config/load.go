package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"seedbed"
)

const maxFile = 1 << 20

// Load reads the file at path and returns the complete, valid configuration. It returns the
// defaults if path is empty, or if it is DefaultPath and the file does not exist. The error has the
// file, the line number and the line. It reports all problems of the file, not only the first.
func Load(path string) (Config, error) {
	text, err := read(path)
	if err != nil {
		return Config{}, err
	}
	return Parse(path, text)
}

// Parse is like Load for text in memory. name stands for the file in messages.
func Parse(name string, text []byte) (Config, error) {
	c := initial()
	src, root, err := decode(source{name: name}, text, &c)
	if err != nil {
		return Config{}, err
	}
	c.complete()
	problems := c.problems()
	if len(problems) == 0 {
		return c, nil
	}
	errs := make([]error, len(problems))
	for i, p := range problems {
		line := src.lineOf(root, p.key)
		if p.secret && line > 0 {
			errs[i] = fmt.Errorf("%s:%d: %s", src.name, line, p)
			continue
		}
		errs[i] = src.at(line, p.String())
	}
	return Config{}, errors.Join(errs...)
}

// Decode strictly reads one YAML mapping into the struct that v points to, whose exported fields
// must all have a yaml tag. Its errors have the form of Load's. Fields that the text does not
// mention stay unchanged.
func Decode(name string, text []byte, v any) error {
	_, _, err := decode(source{name: name}, text, v)
	return err
}

// DecodePrivate is Decode for a text that may hold a secret. The errors name its lines, and do not show
// them.
func DecodePrivate(name string, text []byte, v any) error {
	_, _, err := decode(source{name: name, private: true}, text, v)
	return err
}

// decode reads a text into v. It returns src with the lines of the text.
func decode(src source, text []byte, v any) (source, ast.Node, error) {
	src.lines = strings.Split(string(text), "\n")
	root, err := src.parse(text)
	if err != nil || root == nil {
		return src, nil, err
	}
	if err := src.check(root, reflect.TypeOf(v).Elem()); err != nil {
		return src, nil, err
	}
	if err := yaml.NodeToValue(root, v, yaml.Strict(), yaml.CustomUnmarshaler(duration)); err != nil {
		return src, nil, src.foreign(err)
	}
	return src, root, nil
}

// duration reads a duration, which may be in days.
func duration(d *time.Duration, text []byte) (err error) {
	var given string
	if err = yaml.Unmarshal(text, &given); err != nil {
		return err
	}
	*d, err = seedbed.ParseDuration(given)
	return err
}

func read(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && path == DefaultPath {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("configuration: %s is larger than 1 MiB: that is not a configuration file", path)
	}
	return text, nil
}

// source holds a file's name and lines, for messages.
type source struct {
	name  string
	lines []string
	// private keeps the lines out of messages.
	private bool
}

// parse returns the file's only mapping, or nil if the file is empty.
func (s source) parse(text []byte) (ast.Node, error) {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, s.foreign(err)
	}
	var root ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType:
		case root != nil:
			return nil, s.at(doc.Body.GetToken().Position.Line, "a second YAML document: only one is allowed")
		default:
			root = doc.Body
		}
	}
	return root, nil
}

// at returns an error about a line, which the message shows unless the source is private. Line 0 means that
// the line is unknown.
func (s source) at(line int, msg string) error {
	if line < 1 || line > len(s.lines) {
		if s.name == "" {
			return errors.New(msg)
		}
		return fmt.Errorf("%s: %s", s.name, msg)
	}
	if s.private {
		return fmt.Errorf("%s:%d: %s", s.name, line, msg)
	}
	text := strings.TrimRight(s.lines[line-1], " \t\r")
	if len(text) > 160 {
		text = text[:160] + "…"
	}
	return fmt.Errorf("%s:%d: %s\n  > %s", s.name, line, msg, text)
}

// foreign translates an error of the YAML library.
func (s source) foreign(err error) error {
	if e, ok := errors.AsType[yaml.Error](err); ok && e.GetToken() != nil {
		return s.at(e.GetToken().Position.Line, e.GetMessage())
	}
	return s.at(0, err.Error())
}

// lineOf returns the line of the key with that dotted path, or of its nearest ancestor in the file.
// It returns 0 if there is none.
func (s source) lineOf(root ast.Node, key string) int {
	for root != nil && key != "" {
		p, err := yaml.PathString("$." + key)
		if err != nil {
			return 0
		}
		if n, err := p.FilterNode(root); err == nil && n != nil {
			return n.GetToken().Position.Line
		}
		key = key[:max(0, strings.LastIndexByte(key, '.'))]
	}
	return 0
}
