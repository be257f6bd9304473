// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// LoadConfig reads, defaults and validates a configuration file. Unknown fields are errors: a misspelt limit must not
// pass as a default.
func LoadConfig[T any](file string, setDefaults func(*T), validate func(*T) field.ErrorList) (*T, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("failed to read configuration: %w", err)
	}
	cfg := new(T)
	if err := yaml.UnmarshalStrict(content, cfg); err != nil {
		return nil, fmt.Errorf("failed to parse configuration %s: %w", file, err)
	}
	setDefaults(cfg)
	if err := validate(cfg).ToAggregate(); err != nil {
		return nil, fmt.Errorf("invalid configuration %s: %w", file, err)
	}
	return cfg, nil
}

// SetDefault sets a field that was left out.
func SetDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Ports are the ports of a program by the fields that they stand in.
type Ports map[int32]string

// Use adds a port. It is an error if it cannot be one, or is another field's already.
func (p Ports) Use(port int32, path *field.Path) field.ErrorList {
	allErrs := ValidatePort(port, path)
	if other, taken := p[port]; taken {
		allErrs = append(allErrs, field.Invalid(path, port, "is the port of "+other+" already"))
	}
	p[port] = path.String()
	return allErrs
}

// ValidatePort checks the number of a port.
func ValidatePort(port int32, path *field.Path) field.ErrorList {
	var allErrs field.ErrorList
	for _, message := range validation.IsValidPortNum(int(port)) {
		allErrs = append(allErrs, field.Invalid(path, port, message))
	}
	return allErrs
}

// HostOf returns the host of a host:port, which may be empty. Its error says what the address must be.
func HostOf(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", errors.New("must be host:port")
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return "", errors.New("port must be between 1 and 65535")
	}
	return host, nil
}
