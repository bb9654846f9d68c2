// 13 to 19 digits, as card networks issue them, with the blanks or dashes people write between.
const DIGIT_RUN = /(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)/g;

/**
 * True when a text holds something that passes for a card number. Such a file must not reach our
 * database, logs or messages: the caller refuses it and never repeats the text.
 */
export function holdsCardNumber(text: string): boolean {
  return (text.match(DIGIT_RUN) ?? []).some((run) => passesLuhn(run.replace(/[ -]/g, '')));
}

function passesLuhn(digits: string): boolean {
  let sum = 0;
  for (let index = 0; index < digits.length; index += 1) {
    const digit = Number(digits[digits.length - 1 - index]);
    const doubled = digit * 2;
    if (index % 2 === 0) sum += digit;
    else sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}
