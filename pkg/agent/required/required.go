// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package required lets constructors refuse to make something that lacks what it needs.
package required

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Fields returns an error that names the exported fields of a struct that are not set, but for the optional ones. What
// is checked is the struct itself, so that a field that is added later is required unless somebody says otherwise.
//
// A field is not set if it has the zero value of its type, or if it is an interface with a nil pointer in it.
func Fields(what string, options any, optional ...string) error {
	var (
		value   = reflect.ValueOf(options)
		missing []string
	)
	for _, field := range reflect.VisibleFields(value.Type()) {
		if !field.IsExported() || slices.Contains(optional, field.Name) {
			continue
		}
		if !set(value.FieldByIndex(field.Index)) {
			missing = append(missing, field.Name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("failed to set up %s: these options are missing: %s", what, strings.Join(missing, ", "))
	}
	return nil
}

func set(value reflect.Value) bool {
	if value.Kind() == reflect.Interface && !value.IsNil() && value.Elem().Kind() == reflect.Pointer {
		value = value.Elem()
	}
	return !value.IsZero()
}
