//! Encodes fields of protobuf messages.

use bytes::{BufMut, BytesMut};

/// A message being written.
#[derive(Debug, Default)]
pub struct Message(BytesMut);

impl From<BytesMut> for Message {
    /// Appends to bytes that are written already.
    fn from(bytes: BytesMut) -> Self {
        Self(bytes)
    }
}

impl Message {
    /// The encoded bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// The encoded bytes.
    pub fn into_bytes(self) -> BytesMut {
        self.0
    }

    /// The number of encoded bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The buffer, to append encoded bytes.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.0
    }

    /// Appends encoded bytes.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.put_slice(bytes);
    }

    /// Writes a varint without a key: seven bits per byte.
    pub fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.put_u8(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
            value >>= 7;
        }
        self.0.put_u8(u8::try_from(value).unwrap_or_default());
    }

    /// Writes the key of a field: its number and wire type.
    pub fn key(&mut self, field: u32, wire: u64) {
        self.varint(u64::from(field) << 3 | wire);
    }

    /// Writes an integer field.
    pub fn integer(&mut self, field: u32, value: i64) {
        self.key(field, 0);
        self.varint(value.cast_unsigned());
    }

    /// Writes a boolean field.
    pub fn flag(&mut self, field: u32, value: bool) {
        self.integer(field, i64::from(value));
    }

    /// Writes a `double` field.
    pub fn double(&mut self, field: u32, value: f64) {
        self.key(field, 1);
        self.0.put_f64_le(value);
    }

    /// Writes a field of bytes.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, 2);
        self.varint(u64::try_from(bytes.len()).unwrap_or_default());
        self.0.put_slice(bytes);
    }

    /// Writes a string field.
    pub fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// Writes a field that is a message. Its length is inserted before it after it was written.
    pub fn nested(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.key(field, 2);
        let start = self.0.len();
        write(self);
        let end = self.0.len();
        self.varint(u64::try_from(end.saturating_sub(start)).unwrap_or_default());
        let length_bytes = self.0.len().saturating_sub(end);
        if let Some(written) = self.0.get_mut(start..) {
            written.rotate_right(length_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lengths_take_several_bytes() {
        let mut message = Message::default();
        message.varint(300);
        assert_eq!(message.as_slice(), [0xac, 0x02]);
        let mut message = Message::default();
        message.nested(1, |inner| inner.text(2, &"x".repeat(300)));
        assert_eq!(message.as_slice().get(..7).unwrap(), b"\x0a\xaf\x02\x12\xac\x02x");
        assert_eq!(message.len(), 306);
    }

    #[test]
    fn negative_numbers_take_ten_bytes() {
        let mut message = Message::default();
        message.integer(1, -1);
        assert_eq!(message.as_slice(), b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    }
}
