// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	goyaml "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"
)

// document is one YAML or JSON document of a file.
type document struct {
	origin  Origin
	content []byte
	// isJSON says that the content is a JSON value. If it is false, the content may still be one.
	isJSON bool
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// split splits a file into its non-empty documents. JSON objects may follow each other without a
// separator.
func split(name string, content []byte) []document {
	content = asUTF8(content)
	var documents []document
	add := func(line int, content []byte) {
		if text := bytes.TrimLeft(content, "\r\n"); bytes.HasPrefix(text, byteOrderMark) {
			// one of several files that were put together
			line, content = line+bytes.Count(content[:len(content)-len(text)], []byte("\n")), text[len(byteOrderMark):]
		}
		if blank(content) {
			return
		}
		objects, areJSON := jsonObjects(content)
		for _, object := range objects {
			origin := Origin{File: name, Document: len(documents) + 1, Line: line + bytes.Count(content[:object.start], []byte("\n"))}
			documents = append(documents, document{origin, content[object.start:object.end], areJSON})
		}
	}
	start, startLine, line := 0, 1, 0
	for offset := 0; offset < len(content); {
		line++
		end := lineEnd(content, offset)
		if marker := markerLength(content[offset:end]); marker > 0 {
			add(startLine, content[start:offset])
			start, startLine = offset+marker, line
			for start < end && (content[start] == ' ' || content[start] == '\t') {
				start++ // YAML wants no tab before the first line
			}
		}
		offset = end
	}
	add(startLine, content[start:])
	return documents
}

// asUTF8 returns the content without a byte order mark. UTF-16, which PowerShell writes on Windows, is
// converted.
func asUTF8(content []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(content, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(content, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return bytes.TrimPrefix(content, byteOrderMark)
	}
	units := make([]uint16, 0, len(content)/2)
	for at := 2; at+1 < len(content); at += 2 {
		units = append(units, order.Uint16(content[at:]))
	}
	return []byte(string(utf16.Decode(units)))
}

func lineEnd(content []byte, offset int) int {
	if i := bytes.IndexByte(content[offset:], '\n'); i >= 0 {
		return offset + i + 1
	}
	return len(content)
}

// markerLength returns the length of the document marker at the start of the line, or 0 for another
// line.
func markerLength(line []byte) int {
	for _, marker := range []string{"---", "..."} {
		if bytes.HasPrefix(line, []byte(marker)) && (len(line) == 3 || bytes.IndexByte([]byte(" \t\r\n"), line[3]) >= 0) {
			return 3
		}
	}
	return 0
}

// blank reports whether the content has only empty lines, comments and YAML directives.
func blank(content []byte) bool { return len(fromFirst(content)) == 0 }

// fromFirst returns the content from the first line that is not empty, a comment or a YAML
// directive.
func fromFirst(content []byte) []byte {
	for len(content) > 0 {
		end := lineEnd(content, 0)
		line := bytes.TrimSpace(content[:end])
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			break
		}
		content = content[end:]
	}
	return content
}

type span struct{ start, end int }

// jsonObjects returns the positions of the JSON objects in content. If content is not JSON, it
// returns all of content: YAML in flow style begins with a brace, too.
func jsonObjects(content []byte) (found []span, areJSON bool) {
	whole := []span{{0, len(content)}}
	trimmed := bytes.TrimSpace(content)
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return whole, false
	}
	if json.Valid(trimmed) {
		return whole, true
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	for {
		var object json.RawMessage
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return found, true
		}
		if err != nil {
			return whole, false
		}
		end := int(decoder.InputOffset())
		found = append(found, span{end - len(object), end})
	}
}

// toJSON converts the document to JSON. Errors of the YAML parser have line numbers of the file.
func (d document) toJSON() ([]byte, error) {
	if !utf8.Valid(d.content) {
		return nil, fmt.Errorf("%s: not UTF-8 text", d.origin)
	}
	if d.isJSON || json.Valid(d.content) {
		return d.content, nil
	}
	converted, err := convert(d.content)
	if err == nil {
		return converted, nil
	}
	// Parse again with as many empty lines in front as the document has above it. So the parser's
	// line numbers are those of the file. This is done only after an error.
	above := bytes.Repeat([]byte("\n"), d.origin.Line-1)
	if _, inFile := convert(append(above, d.content...)); inFile != nil {
		err = inFile
	}
	return nil, fmt.Errorf("%s: %s", d.origin, shorten(err.Error()))
}

// lastOfTwice converts a document in which a field occurs twice, as toJSON said. The last one counts,
// as for kubectl.
func (d document) lastOfTwice(err error) (converted []byte, isTwice bool) {
	if err == nil || !strings.Contains(err.Error(), "already set in map") {
		return nil, false
	}
	converted, err = yaml.YAMLToJSON(d.content)
	return converted, err == nil
}

// convert converts YAML to JSON. It checks that nothing follows the first value: a parser that
// reads one value stops after a flow mapping.
func convert(content []byte) ([]byte, error) {
	converted, err := yaml.YAMLToJSONStrict(content)
	if err != nil || !bytes.HasPrefix(bytes.TrimSpace(fromFirst(content)), []byte("{")) {
		return converted, err
	}
	decoder := goyaml.NewDecoder(bytes.NewReader(content))
	for {
		var ignored any
		if err := decoder.Decode(&ignored); errors.Is(err, io.EOF) {
			return converted, nil
		} else if err != nil {
			return nil, fmt.Errorf("%w: documents are divided by ---", err)
		}
	}
}
