use anyhow::Result;
use std::net::{Ipv4Addr, UdpSocket};

/// Answers that every name is one address, as a cluster's name server does for its Services. It ends with the program.
#[derive(Debug)]
pub(super) struct Dns {
    address: String,
}

/// Nobody else's on any machine, since port 53 of 127.0.0.1 may be taken.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 86, 53, 1);
const PORT: u16 = 53;
const HEADER: usize = 12;
/// What ends a question: the root's empty label, the type, the class.
const QUESTION_END: usize = 5;
const TYPE_A: [u8; 2] = [0, 1];

impl Dns {
    /// `None` where nobody may listen there.
    pub(super) fn serve(answer: &str) -> Result<Option<Self>> {
        let answer: Ipv4Addr = answer.parse()?;
        let Ok(socket) = UdpSocket::bind((ADDRESS, PORT)) else { return Ok(None) };
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let asked = buffer.get(..length).unwrap_or_default();
                if let Some(reply) = reply(asked, answer) {
                    drop(socket.send_to(&reply, from));
                }
            }
        });
        Ok(Some(Self { address: ADDRESS.to_string() }))
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

/// The answer of RFC 1035: an address for type A, no record for others.
fn reply(asked: &[u8], answer: Ipv4Addr) -> Option<Vec<u8>> {
    let name = asked.get(HEADER..)?.iter().position(|byte| *byte == 0)?;
    let question = asked.get(HEADER..HEADER + name + QUESTION_END)?;
    let is_address = question.get(name + 1..name + 3)? == TYPE_A;
    let mut reply = asked.get(..2)?.to_vec();
    // A response to a recursive query; one question, one answer or none.
    reply.extend([0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
    reply.extend(question);
    if is_address {
        // The name of the question, type A, class IN, five seconds, four bytes.
        reply.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4]);
        reply.extend(answer.octets());
    }
    Some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_for_an_address_is_answered_with_it() {
        let question = |kind: u8| {
            let mut asked = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
            asked.extend(b"\x02db\x03svc\0");
            asked.extend([0, kind, 0, 1]);
            asked
        };
        let address = reply(&question(1), Ipv4Addr::LOCALHOST).unwrap();
        assert!(address.starts_with(&[7, 9, 0x81, 0x80]) && address.ends_with(&[127, 0, 0, 1]));
        let other = reply(&question(28), Ipv4Addr::LOCALHOST).unwrap();
        assert_eq!(other.get(6..8), Some(&[0, 0][..]));
        assert_eq!(reply(&[1, 2, 3], Ipv4Addr::LOCALHOST), None);
    }
}
