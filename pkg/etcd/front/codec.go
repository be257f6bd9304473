// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// frame is a message of etcd that is passed on as it is.
type frame struct{ data mem.BufferSlice }

// free gives a frame back that is not passed on.
func (f *frame) free() {
	f.data.Free()
	f.data = nil
}

// codec passes on frames, and writes the front's own messages as JSON.
type codec struct{}

// Marshal implements encoding.CodecV2. It takes the content out of a frame.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch message := v.(type) {
	case *frame:
		data := message.data
		message.data = nil
		return data, nil
	case steeringMessage:
		content, err := json.Marshal(message)
		if err != nil {
			return nil, err
		}
		return mem.BufferSlice{mem.SliceBuffer(content)}, nil
	}
	return nil, fmt.Errorf("cannot write a message of type %T", v)
}

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch message := v.(type) {
	case *frame:
		data.Ref()
		message.data = data
		return nil
	case steeringMessage:
		decoder := json.NewDecoder(bytes.NewReader(data.Materialize()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(message); err != nil {
			return err
		}
		if decoder.More() {
			return errors.New("there is something behind the message")
		}
		return nil
	}
	return fmt.Errorf("cannot read a message of type %T", v)
}

// Name implements encoding.CodecV2. To etcd this is the codec that its own clients use.
func (codec) Name() string { return proto.Name }
